"""The models of a study, named before they are made: each run an `Origin`, tuned ones with the step that makes them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from vestige.corpus.store import task_path
from vestige.corpus.types import Corpus
from vestige.digest import digest_json
from vestige.errors import SpecError
from vestige.finetune.naming import making_name
from vestige.models.encoders.encoder import Encoder
from vestige.models.files.naming import libraries, model_name
from vestige.models.files.sources import model_folder
from vestige.study.corpora import Given
from vestige.study.heads import head_digest
from vestige.study.spec import StudySpec
from vestige.study.steps.origin import Origin, tunable, without_adapter
from vestige.study.steps.tune import Tune

TWIN_SEED = 1234
"""Of random twins; the number of a pre-training replicate is added."""


@dataclass
class Named:
    """Every model of a study with its name, what makes it, and what is known of its making."""

    origins: dict[tuple[str, int], Origin] = field(default_factory=dict)
    """By model and run."""
    tunes: dict[tuple[str, int], Tune] = field(default_factory=dict)
    memory: dict[str, Encoder] = field(default_factory=dict)
    """By name, models that no other process can load."""
    about: dict[str, dict[str, Any]] = field(default_factory=dict)
    """How every model was made, for study.lock.json."""


def name_models(spec: StudySpec, corpora: Mapping[str, Corpus], given: Given, root: Path) -> Named:
    """Name every run of every model; nothing is loaded, but files are hashed."""
    named, parts = Named(), _Parts(spec, given, root)
    for name, model in spec.models.items():
        if model.finetune is not None and name not in given.models:
            for run in range(model.runs):
                tune = _tune(spec, name, run, corpora, root)
                named.tunes[name, run] = tune
                named.origins[name, run] = _of_tuned(spec, name, run, tune)
            tuned_on = model.finetune.task
            named.about[name] = {"source": f"{model.finetune.of} fine-tuned on {tuned_on}", "tuned_on": tuned_on}
            continue
        if name in given.models:
            named.memory[name] = given.models[name]
            about: dict[str, Any] = {"source": "in memory"}
        elif model.adapter_off is not None:
            about = {"source": f"{model.adapter_off} without its adapter"}
        elif model.random_twin_of is not None:
            about = {"source": f"random twin of {model.random_twin_of}", "baseline": True}
        else:
            about = {"source": model.load}
        source = parts.source(name)
        if source is None and name not in given.models:
            named.memory[name] = parts.encoder(name)
        named.about[name] = about
        named.origins[name, 0] = Origin(name, 0, parts.key(name), source)
    return _followed(spec, named)


def _followed(spec: StudySpec, named: Named) -> Named:
    """A model leaves its attention sink out where its reference does: both have the same words to be compared on."""
    found = dict(named.origins)
    for (name, run), origin in found.items():
        reference = found.get((spec.reference_of(name) or "", 0))
        if reference is not None and _reads_auto(spec, name):
            key = digest_json([origin.key, "follows", reference.key])
            named.origins[name, run] = Origin(name, run, key, origin.source, _first(spec, found, reference))
    return named


def _first(spec: StudySpec, found: Mapping[tuple[str, int], Origin], reference: Origin) -> str:
    """The key under which the facts of a reference are kept: it may itself follow another."""
    above = found.get((spec.reference_of(reference.model) or "", 0))
    if above is None or not _reads_auto(spec, reference.model):
        return reference.key
    return digest_json([reference.key, "follows", above.key])


def _reads_auto(spec: StudySpec, name: str) -> bool:
    model = spec.models[name]
    reading = spec.models[model.finetune.of].read if model.finetune else model.read
    return reading.sink == "auto"


@dataclass
class _Parts:
    """What models are made of, one from another."""

    spec: StudySpec
    given: Given
    root: Path

    def source(self, name: str) -> dict[str, Any] | None:
        """How to make a model of the spec again, unless it comes from memory."""
        if name in self.given.models:
            return None
        model = self.spec.models[name]
        if model.load is not None:
            return {"source": model.load, **options_of(self.spec, name)}
        if model.finetune is not None:
            raise SpecError(f"model {name!r} is made in this study", fix="refer to a model that is loaded")
        inner = self.source(_origin_of(self.spec, name))
        if inner is None:
            return None
        if model.adapter_off is not None:
            return {"without_adapter": _with_adapter(inner, model.adapter_off)}
        return {"twin_of": inner, "seed": twin_seed(self.spec, name)}

    def key(self, name: str) -> str:
        """Hash of what makes the model."""
        if name in self.given.models:
            encoder = self.given.models[name]
            return digest_json(["in memory", encoder.fingerprint, head_digest(encoder), libraries()])
        model = self.spec.models[name]
        if model.load is not None:
            how = options_of(self.spec, name)
            files = model_name(model.load, model.revision, base=model.base, tokenizer=how["tokenizer"])
            read = {key: how[key] for key in how if key not in ("tokenizer", "revision", "base", "device")}
            return digest_json(["files", files, read, libraries()])
        inner = self.key(_origin_of(self.spec, name))
        if model.adapter_off is not None:
            return digest_json(["without adapter", inner])
        return digest_json(["random twin", inner, twin_seed(self.spec, name)])

    def encoder(self, name: str) -> Encoder:
        """A model that is made from one in memory."""
        if name in self.given.models:
            return self.given.models[name]
        model, inner = self.spec.models[name], self.encoder(_origin_of(self.spec, name))
        return without_adapter(inner, name) if model.adapter_off else inner.random_twin(twin_seed(self.spec, name))


def _with_adapter(source: dict[str, Any], name: str) -> dict[str, Any]:
    """The source of a model that has an adapter to switch off."""
    place = source.get("source")
    if place is None or not (model_folder(place, source["revision"]) / "adapter_config.json").exists():
        raise SpecError(f"{name!r} has no adapter to switch off", fix=f"load the base of {name!r} instead")
    return source


def _origin_of(spec: StudySpec, name: str) -> str:
    other = spec.models[name].adapter_off or spec.models[name].random_twin_of
    assert other is not None
    return other


def options_of(spec: StudySpec, name: str) -> dict[str, Any]:
    """What `load_model` is told of a model besides its source."""
    model = spec.models[name]
    return {
        "tokenizer": spec.models[model.tokenizer].load if model.tokenizer in spec.models else model.tokenizer,
        "revision": model.revision,
        "device": spec.compute.device,
        "base": model.base,
        "stateful": model.stateful,
        "device_map": model.device_map,
        **asdict(model.read),
    }


def twin_seed(spec: StudySpec, name: str) -> int:
    """The seed that a random twin is drawn with."""
    return TWIN_SEED + (spec.models[name].pretrain_seed or 0)


def _tune(spec: StudySpec, name: str, run: int, corpora: Mapping[str, Corpus], root: Path) -> Tune:
    """The step that makes a run of a tuned model."""
    wanted = spec.models[name].finetune
    assert wanted is not None
    if spec.models[wanted.of].load is None:
        raise SpecError(f"model {name!r} is tuned from {wanted.of!r}, which is not loaded", fix="tune a loaded model")
    base = tunable(
        {"source": spec.models[wanted.of].load, **options_of(spec, wanted.of)},
        f"model {name!r} is tuned from {wanted.of!r}, which",
    )
    corpus, _, label = wanted.task.partition("/")
    task, keep = corpora[corpus].task(label), None if wanted.keep is None else list(wanted.keep)
    how: dict[str, Any] = {"seed": run, "device": spec.compute.device, "threads": spec.compute.model_threads}
    return Tune(
        key=making_name(base, task, wanted.recipe, keep=keep, **how),
        cache=str(root),
        base=str(base),
        model=name,
        task=wanted.task,
        task_file=str(task_path(task, root / "tasks")),
        recipe=asdict(wanted.recipe),
        keep=keep,
        **how,
    )


def _of_tuned(spec: StudySpec, name: str, run: int, tune: Tune) -> Origin:
    wanted, step = spec.models[name].finetune, spec.models[name].step
    assert wanted is not None
    folder = tune.folder if step is None else tune.folder / f"checkpoint-{step}"
    read = asdict(spec.models[wanted.of].read)
    source = {"source": str(folder), "device": spec.compute.device, **read}
    return Origin(name, run, digest_json(["tuned", tune.key, step, read, libraries()]), source)
