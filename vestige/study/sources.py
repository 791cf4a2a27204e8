"""Models that a study names are to be had; an error says so before any work starts."""

from vestige.models.files.sources import model_folder
from vestige.study.corpora import Given
from vestige.study.spec import StudySpec


def check_sources(spec: StudySpec, given: Given) -> None:
    """An error for a model that is not here; hub models are fetched."""
    from vestige.models.encoders.elmo import is_elmo
    from vestige.models.encoders.telmo import is_telmo

    for name, model in spec.models.items():
        if model.load is not None and name not in given.models and not (is_elmo(model.load) or is_telmo(model.load)):
            model_folder(model.load, model.revision)
