"""What a paper in its own setting costs on one GPU, before any of it runs.

Operations are counted (`vestige.papers.flops`) for every step that runs a model: tuning, and passes whose hidden
states, attentions or likelihoods are read. Probes and comparisons run on processors and are no part of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml

from vestige.corpus.catalog import find_entry
from vestige.errors import SpecError
from vestige.finetune.recipe import load_recipe, make_recipe
from vestige.papers.flops import depth_of, forward, is_published, training
from vestige.study.spec import AnalysisSpec, StudySpec
from vestige.study.steps.analyse import needs_model

GPU = "A100 40GB"
PEAK = 19.5e12
"""Its float32 operations a second outside of tensor cores; studies compute in float32."""
SHARE = 0.4
"""Of the peak that models are taken to reach."""
TOKENS = 1.3
"""Tokens of a word, on average."""
SPECIAL = 3
"""Tokens that are no words, of an example."""
LONGEST = 512


@dataclass(frozen=True)
class Work:
    """Steps of one kind of one base model."""

    model: str
    kind: str
    """fine-tuning, tuned variants, or passes."""
    steps: int
    flops: float

    @property
    def hours(self) -> float:
        """On the GPU."""
        return self.flops / (PEAK * SHARE) / 3600


@dataclass(frozen=True)
class Size:
    """A corpus as published: examples by split, words of an example."""

    sentences: Mapping[str, int]
    words: float
    source: str

    def tokens(self, most: int = LONGEST) -> int:
        """Of an example, in round numbers."""
        return min(most, round(TOKENS * self.words) + SPECIAL)


@lru_cache
def _known() -> Mapping[str, Any]:
    return dict(yaml.safe_load((files("vestige.papers") / "sizes.yaml").read_text(encoding="utf-8")))


def size_of(name: str) -> Size:
    """The size of a corpus of the catalog."""
    entry, known = find_entry(name), _known().get(name)
    if entry is None or known is None:
        raise SpecError(f"the size of {name!r} is not known", fix="a cost is stated of the full scale only")
    return Size(known.get("sentences") or dict(entry.counts), known["words"], known["from"])


def count(spec: StudySpec) -> list[Work]:
    """All work of a study whose corpora are of the catalog, by base model and kind."""
    sizes = {name: size_of(corpus.name or "") for name, corpus in spec.corpora.items()}
    found: dict[tuple[str, str], list[float]] = {}
    for model, kind, flops in (*_tuned(spec, sizes), *_variants(spec, sizes), *_passes(spec, sizes)):
        found.setdefault((model, kind), []).append(flops)
    return [Work(model, kind, len(steps), sum(steps)) for (model, kind), steps in found.items()]


def _base(spec: StudySpec, name: str) -> str:
    """What was loaded, of a model or of what it is made from."""
    model = spec.models[name]
    made_from = model.random_twin_of or (model.finetune.of if model.finetune else None)
    return _base(spec, made_from) if made_from else str(model.load)


def _trained(sizes: Mapping[str, Size], task: str, epochs: int, most: int) -> tuple[int, int]:
    """Examples seen, and tokens of one."""
    size = sizes[task.partition("/")[0]]
    return size.sentences["train"] * epochs, size.tokens(most)


def _tuned(spec: StudySpec, sizes: Mapping[str, Size]) -> Iterator[tuple[str, str, float]]:
    """Every fine-tuning run; checkpoints of a run (`during`) are made by it."""
    made = set()
    for name, model in spec.models.items():
        if model.finetune is None:
            continue
        recipe, base = model.finetune.recipe, _base(spec, name)
        examples, tokens = _trained(sizes, model.finetune.task, recipe.epochs, recipe.max_tokens)
        for run in range(model.runs):
            making = (base, model.finetune.task, repr(recipe), run)
            if making not in made:
                made.add(making)
                yield base, "fine-tuning", examples * training(base, tokens)


def _variants(spec: StudySpec, sizes: Mapping[str, Size]) -> Iterator[tuple[str, str, float]]:
    """Models that are frozen, cut or pruned, and tuned by an analysis."""
    for analysis in spec.analyses:
        parameters = analysis.parameters
        if "trainable_model" not in parameters.needs:
            continue
        asked = parameters.parameters()
        recipe = load_recipe(asked["recipe"], **asked["changes"]) if asked["recipe"] else make_recipe(asked["changes"])
        for base in [name for name, model in spec.models.items() if model.load and analysis.reads(name)]:
            source = _base(spec, base)
            for task in analysis.tasks:
                examples, tokens = _trained(sizes, task, recipe.epochs, recipe.max_tokens)
                for variant in parameters.variants(recipe, depth_of(source)):  # type: ignore[attr-defined]
                    kept = None if variant.keep is None else len(variant.keep)
                    one = training(source, tokens, variant.recipe.freeze, kept)
                    yield from ((source, "tuned variants", float(examples * one)) for _ in range(asked["runs"]))


def _passes(spec: StudySpec, sizes: Mapping[str, Size]) -> Iterator[tuple[str, str, float]]:
    """Hidden states of every corpus that some analysis reads of a model, once; and passes of an analysis' own."""
    for name, model in spec.models.items():
        source, runs = _base(spec, name), model.runs if model.finetune else 1
        read = [one for one in spec.analyses if one.reads(name) and "trainable_model" not in one.parameters.needs]
        hidden = {
            task.partition("/")[0] for one in read if "hidden_states" in one.parameters.needs for task in one.tasks
        }
        for corpus in sorted(hidden):
            size = sizes[corpus]
            one = sum(size.sentences.values()) * forward(source, size.tokens())
            yield from ((source, "passes", float(one)) for _ in range(runs))
        for analysis in read:
            if needs_model(type(analysis.parameters)):
                yield from ((source, "passes", flops) for flops in _own_passes(analysis, sizes, source, runs))


def _own_passes(analysis: AnalysisSpec, sizes: Mapping[str, Size], source: str, runs: int) -> Iterator[float]:
    """Of an analysis that runs the model itself: beside its reference, or with every number of layers replaced."""
    asked = analysis.parameters.parameters()
    replaced = depth_of(source) + 2 if asked.get("sweep") else 1
    times = (replaced + 1) * asked.get("mask_seeds", 1)
    for task in analysis.tasks:
        size = sizes[task.partition("/")[0]]
        sentences = size.sentences[asked.get("split", "test")]
        one = min(sentences, asked.get("sentences") or sentences) * forward(source, size.tokens())
        yield from (float(times * one) for _ in range(runs))


def cost_lines(work: Sequence[Work], spec: StudySpec) -> Iterator[str]:
    """For a terminal."""
    yield (
        f"{spec.study} on one {GPU}, at {SHARE:.0%} of its float32 peak of {PEAK / 1e12:g} TFLOP/s; operations are "
        "counted on the architecture, corpora are as published:"
    )
    yield f"  {'':22} {'':16} {'steps':>6} {'FLOPs':>10} {'hours':>8}"
    for one in work:
        yield f"  {one.model[-22:]:22} {one.kind:16} {one.steps:6} {one.flops:10.2e} {one.hours:8.1f}"
    steps, flops, hours = (sum(getattr(one, name) for one in work) for name in ("steps", "flops", "hours"))
    yield f"  {'all':22} {'':16} {steps:6} {flops:10.2e} {hours:8.1f}"
    for source in dict.fromkeys(one.model for one in work):
        kind = "as published" if is_published(source) else "as its folder has it"
        per_token = forward(source, 128) / 128 / 1e6
        yield f"  {source}: {depth_of(source)} blocks ({kind}), {per_token:.1f} MFLOPs a token of 128, forwards"
    yield "  probes and comparisons run on processors and are not in it"
    assumed = [name for name, corpus in spec.corpora.items() if "assumed" in size_of(corpus.name or "").source]
    if assumed:
        yield f"  lengths or sizes are assumed of {', '.join(assumed)}"


def as_plain(work: Sequence[Work]) -> dict[str, Any]:
    """For a program."""
    return {
        "gpu": GPU,
        "peak": PEAK,
        "share": SHARE,
        "hours": round(sum(one.hours for one in work), 2),
        "work": [
            {"model": w.model, "kind": w.kind, "steps": w.steps, "flops": w.flops, "hours": round(w.hours, 3)}
            for w in work
        ],
    }
