"""The models of a study, made one at a time: loaded, fine-tuned here, randomised, or without their adapter."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from vestige.cache import give_up
from vestige.corpus.types import Corpus
from vestige.errors import ModelError, SpecError
from vestige.finetune.train import Tuned, finetune
from vestige.models.encoders.adapters import AdapterEncoder
from vestige.models.encoders.elmo import is_elmo
from vestige.models.encoders.encoder import Encoder
from vestige.models.encoders.telmo import is_telmo
from vestige.models.files.load import RANDOM_TWIN_SEED, check_device, load_model, random_twin
from vestige.models.files.sources import model_folder
from vestige.study.spec import StudySpec


@dataclass
class Given:
    """Models and corpora handed over in memory, by the names the spec uses for them."""

    models: Mapping[str, Encoder] = field(default_factory=dict)
    corpora: Mapping[str, Corpus] = field(default_factory=dict)


@dataclass(frozen=True)
class Made:
    """A model of the study, ready to be read."""

    name: str
    run: int
    """Number of the fine-tuning run; 0 for models that were loaded."""
    encoder: Encoder
    about: dict[str, Any]
    """How it was made, for study.lock.json."""
    source: dict[str, Any] | None
    """What `load_source` makes it from in another process; None if the model exists only in memory."""


def check_sources(spec: StudySpec, given: Given) -> None:
    """An error for a device or a model that is not here, before any work starts; hub models are fetched."""
    check_device(spec.compute.device)
    for name, model in spec.models.items():
        if model.load is not None and name not in given.models and not (is_elmo(model.load) or is_telmo(model.load)):
            model_folder(model.load, model.revision)


def make_models(
    spec: StudySpec, corpora: Mapping[str, Corpus], given: Given, root: Path, heads: Collection[str] = ()
) -> Iterator[Made]:
    """Every run of every model; a generator, so that only one is in memory. Those named in `heads` come with theirs."""
    torch.set_num_threads(spec.compute.model_threads)
    adapters: dict[str, AdapterEncoder] = {}
    for position, (name, model) in enumerate(spec.models.items()):
        if model.finetune is not None and name not in given.models:
            for run in range(model.runs):
                yield _tuned(spec, name, run, corpora, root, name in heads)
            continue
        encoder, about = _untuned(spec, name, given, adapters, list(spec.models)[position + 1 :], name in heads)
        yield Made(name, 0, encoder, about, _source(spec, name, given))


def _untuned(
    spec: StudySpec, name: str, given: Given, adapters: dict[str, AdapterEncoder], rest: list[str], head: bool
) -> tuple[Encoder, dict[str, Any]]:
    """A model that is not trained here, and how it came about."""
    model = spec.models[name]
    if name in given.models:
        return given.models[name], {"source": "in memory"}
    if model.adapter_off is not None:
        tuned = _load_once(spec, model.adapter_off, given, adapters, rest, head)
        return _without_adapter(tuned, name), {"source": f"{model.adapter_off} without its adapter"}
    if model.random_twin_of is not None:
        twin = random_twin(_load(spec, model.random_twin_of, given), _twin_seed(spec, name))
        return twin, {"source": f"random twin of {model.random_twin_of}", "baseline": True}
    return _load_once(spec, name, given, adapters, rest, head), {"source": model.load}


def load_source(source: Mapping[str, Any], name: str, head: bool = False) -> Encoder:
    """The model that a `Made.source` stands for; with its language-model head where it has one and `head` is set."""
    if "twin_of" in source:
        return random_twin(load_source(source["twin_of"], name), source["seed"])
    if "without_adapter" in source:
        return _without_adapter(load_source(source["without_adapter"], name), name)
    if head:
        try:
            return load_model(**source, name=name, head=True)
        except ModelError:
            pass
    return load_model(**source, name=name)


def _source(spec: StudySpec, name: str, given: Given) -> dict[str, Any] | None:
    """How to make a model of the spec again, unless it comes from memory or is tuned here."""
    if name in given.models or spec.models[name].finetune is not None:
        return None
    model = spec.models[name]
    if model.load is not None:
        return {"source": model.load, **_options(spec, name)}
    other = model.adapter_off or model.random_twin_of
    assert other is not None
    inner = _source(spec, other, given)
    if inner is None:
        return None
    if model.adapter_off is not None:
        return {"without_adapter": inner}
    return {"twin_of": inner, "seed": _twin_seed(spec, name)}


def _options(spec: StudySpec, name: str) -> dict[str, Any]:
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


def _twin_seed(spec: StudySpec, name: str) -> int:
    return RANDOM_TWIN_SEED + (spec.models[name].pretrain_seed or 0)


def _load(spec: StudySpec, name: str, given: Given, head: bool = False) -> Encoder:
    if name in given.models:
        return given.models[name]
    model = spec.models[name]
    if model.adapter_off is not None:
        return _without_adapter(_load(spec, model.adapter_off, given), name)
    if model.load is None:
        raise SpecError(f"model {name!r} is made in this study", fix="refer to a model that is loaded")
    return load_source({"source": model.load, **_options(spec, name)}, name, head)


def _load_once(
    spec: StudySpec, name: str, given: Given, adapters: dict[str, AdapterEncoder], rest: list[str], head: bool
) -> Encoder:
    """A loaded model; one with an adapter is kept while the rest of the study reads it, with its adapter or without."""
    encoder = adapters.pop(name, None) or _load(spec, name, given, head)
    if isinstance(encoder, AdapterEncoder) and any(name in (other, spec.models[other].adapter_off) for other in rest):
        adapters[name] = encoder
    return encoder


def _without_adapter(encoder: Encoder, name: str) -> Encoder:
    if not isinstance(encoder, AdapterEncoder):
        raise SpecError(
            f"{encoder.name!r} has no adapter to switch off", fix=f"load the base of {encoder.name!r} instead"
        )
    return encoder.without_adapter(name)


def _tuned(spec: StudySpec, name: str, run: int, corpora: Mapping[str, Corpus], root: Path, head: bool) -> Made:
    """Fine-tune run number `run` of a model and load its backbone."""
    wanted = spec.models[name].finetune
    assert wanted is not None
    if spec.models[wanted.of].load is None:
        raise SpecError(f"model {name!r} is tuned from {wanted.of!r}, which is not loaded", fix="tune a loaded model")
    base = tunable(
        {"source": spec.models[wanted.of].load, **_options(spec, wanted.of)},
        f"model {name!r} is tuned from {wanted.of!r}, which",
    )
    corpus, _, label = wanted.task.partition("/")
    make = partial(
        finetune,
        base,
        corpora[corpus].task(label),
        wanted.recipe,
        seed=run,
        device=spec.compute.device,
        threads=spec.compute.model_threads,
        cache=root,
        keep=wanted.keep,
    )
    tuned = make()
    folder = _checkpoint(name, tuned, spec.models[name].step)
    if give_up(folder):  # checkpoints are compared only here, where one is read
        tuned = make()
    source = {"source": str(folder), "device": spec.compute.device, **asdict(spec.models[wanted.of].read)}
    about = {"source": f"{wanted.of} fine-tuned on {wanted.task}", "tuned_on": wanted.task, "tune_seed": run}
    about |= {"recipe": asdict(wanted.recipe), "curve": tuned.log["curve"]}
    return Made(name, run, load_source(source, name, head), about, source)


def _checkpoint(name: str, tuned: Tuned, step: int | None) -> Path:
    """Where the model of a step is kept; without a step, the tuned model."""
    if step is None or (tuned.folder / f"checkpoint-{step}").is_dir():
        return tuned.folder if step is None else tuned.folder / f"checkpoint-{step}"
    kept = [f"{point['step']}" for point in tuned.log["checkpoints"]]
    raise SpecError(
        f"model {name!r} is to be step {step}, but checkpoints are kept of {', '.join(kept) or 'no step'} "
        f"({tuned.log['steps']} steps in all)",
        fix="name one of them, or set save_steps in the recipe",
    )


def tunable(source: Mapping[str, Any], which: str) -> str | Path:
    """What `finetune` takes of the model that `load_source` makes of this; `which` begins a complaint about it."""
    folder = model_folder(source["source"], source.get("revision"))
    if source.get("tokenizer") is not None or (folder / "adapter_config.json").exists():
        what = "an adapter" if source.get("tokenizer") is None else "a tokenizer from elsewhere"
        raise SpecError(
            f"{which} has {what}",
            fix="save it as one folder with its tokenizer (an adapter: merge_and_unload) and load that",
        )
    return source["source"] if source.get("revision") is None else folder
