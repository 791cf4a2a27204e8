"""Edge probe: do the vectors of a span, or of two, tell what it is, or how they are related?

merchant2020 section 4, after Tenney et al. 2019. One probe for parts of speech, phrases, entities,
dependencies, semantic roles, coreference and relations: they differ only in their spans and labels.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.metric import LAYER, WHOLE, Axis, Metric, Role, Unit
from vestige.analyses.remarks import TARGETS
from vestige.analyses.settings import Count, Dropped, Penalty, Positive, Share, Some
from vestige.comparison.estimators import F1
from vestige.measures.edge_scores import (
    EdgeCounts,
    Scorer,
    centre_of_gravity,
    divergence_from_uniform,
    expected_layer,
    tenney_labels,
)
from vestige.probes.edges.model import LAST_MIXED, EdgeRecipe, Edges, Source, placed_sources
from vestige.probes.edges.targets import EdgeSplits, EdgeTargets
from vestige.probes.edges.training import TOGETHER, EdgeFit, predictions, train_edges
from vestige.probes.rows import Place, place_columns
from vestige.progress import bar
from vestige.representations.pool import SpanPooling

SCORERS: dict[Scorer, str] = {"micro": "", "tenney": "tenney_"}
"""With what the columns of the table `sentences` begin."""

MIXED = Axis(LAST_MIXED, "last layer of the mix")
INPUTS = (LAYER, WHOLE, MIXED)
"""A layer by itself; another input; mixes of layers 0 to k."""


def _f1(scorer: Scorer, title: str, about: str) -> Metric:
    hits, predicted, gold = (SCORERS[scorer] + name for name in ("hits", "predicted", "gold"))
    compared = F1(table="sentences", hits=hits, predicted=predicted, gold=gold)
    return Metric(f"f1_{scorer}", title, "percent", "higher", 0.005, 1, INPUTS, compared=compared, about=about)


def _detail(
    name: str,
    title: str,
    unit: Unit = "none",
    decimals: int = 3,
    along: tuple[Axis, ...] = INPUTS,
    role: Role = "detail",
) -> Metric:
    return Metric(name, title, unit, decimals=decimals, along=along, role=role)


_PROBE = (
    _f1("micro", "F1", "Micro-averaged over all labels."),
    _f1("tenney", "F1 as in Tenney et al.", "Micro-averaged over the labels that Tenney et al. 2019 count."),
    _detail("accuracy", "targets with exactly the right labels", "percent", 1),
    _detail("f1", "F1 of a label", "percent", 1),
    _detail("dev_f1", "F1 on dev", "percent", 1),
    _detail("steps", "steps of training", "count", 0),
    _detail("parameters", "parameters of the probe", "count", 0),
)
_MIX = (
    _detail("mix_weight", "weight in the mix", along=(LAYER, MIXED), role="result"),
    _detail("mix_gamma", "factor on the mix", along=(WHOLE, MIXED)),
    _detail("centre_of_gravity", "centre of gravity of the mix", decimals=2, along=(WHOLE, MIXED)),
    _detail("kl", "divergence of the mix from equal weights", "nats", along=(WHOLE, MIXED)),
)
_MIXES = (
    _detail("expected_layer", "expected layer", decimals=2, along=(WHOLE,), role="result"),
    _detail("differential_score", "F1 gained by a further layer", "percent", 1, along=(LAYER,), role="result"),
)


@dataclass(frozen=True)
class EdgeProbe(Analysis):
    """Probes of single layers and of mixes of them, on the same targets."""

    name: ClassVar[str] = "edge_probe"
    title: ClassVar[str] = "Edge probe"
    source: ClassVar[str] = "merchant2020, section 4; Tenney et al. 2019"
    needs = frozenset({"hidden_states"})
    levels = ("span", "span_pair")
    metrics: ClassVar[tuple[Metric, ...]] = (*_PROBE, *_MIX, *_MIXES, *TARGETS)
    version = 4

    inputs: Annotated[tuple[str, ...], Some] = ("layers", "mix")
    """What probes read: layers (each by itself), layer 3, top, lexical (layer 0), cat (top and lexical side by
    side), mix (a learned mean of all layers), mix 0-3 (of layers 0 to 3) and mixes (of layers 0 to k, for every k:
    gives the expected layer)."""
    pooling: SpanPooling = "mean"
    """What a span is made of: a vector per word, or of all pieces of its words, as the papers have it (`pieces`)."""
    seeds: Count = 3
    """Trainings from other starting weights, in another order of sentences. With one, changes are described only."""
    rescale: bool = True
    """Bring every layer around its mean and to unit root mean square first, outlier units shrunk, so that neither its
    scale nor a few units play a role; the papers do not."""
    axes: Literal["principal", "units"] = "principal"
    """Read layers on the principal axes of all of them together, so that a rotated copy of a model trains the same
    probes, or unit by unit as the papers do."""
    normed_mix: bool = False
    """Bring every vector to mean 0 and variance 1 before it is mixed: long vectors weigh more than their weight."""
    projected: Count = 256
    """Width that every word's vector is projected to."""
    hidden: Count = 256
    """Hidden units of the probe."""
    dropout: Dropped = 0.3
    """Share of units dropped in training, projected and hidden."""
    rate: Positive = 1e-4
    """Learning rate of Adam."""
    mix_rate: Positive | None = None
    """Of the weights of mixes; None: the same. At 1e-4 they hardly leave their start in short trainings."""
    batch: Count = 32
    """Sentences a step reads."""
    validate_every: Count | None = None
    """Steps between two validation passes; None: 1,000, and 100 where train has fewer than 10,000 sentences."""
    max_validations: Count | None = None
    """None: 250, and 100 where train has fewer than 10,000 sentences."""
    patience: Count = 20
    """A probe stops when so many validation passes in a row have brought no gain."""
    gain: Penalty = 1e-4
    """Smaller gains of F1 on dev do not count."""
    decay: Share = 0.5
    """Factor on the rate whenever `decay_after` validation passes in a row have brought no gain."""
    decay_after: Count = 5
    """Validation passes without a gain before the rate is lowered."""
    min_rate: Penalty = 1e-6
    """A probe stops when its rate falls below."""
    clip: Positive = 5.0
    """Norm that gradients are cut down to."""
    dev_sentences: Count = 5000
    """Sentences of dev that validation passes read, the first ones."""
    split: str = "test"
    """The split that is scored."""

    @property
    def stochastic(self) -> bool:
        return True

    @property
    def given(self) -> tuple[Metric, ...]:
        mix = any(name.startswith("mix") for name in self.inputs)
        mixes = any(name == "mixes" or name.startswith("mix 0-") for name in self.inputs)
        return (*_PROBE, *(_MIX if mix else ()), *(_MIXES if mixes else ()), *TARGETS)

    def run(self, inputs: Inputs) -> Outcome:
        splits = dict.fromkeys(("train", "dev", self.split))
        data = EdgeSplits.of(inputs.task, {split: inputs.split(split) for split in splits})
        outcome = Outcome()
        for remark in data.remarks():
            outcome.add(**remark)
        sources = placed_sources(self.inputs, data.widths)
        scored = data.targets[self.split]
        scores = _Scores(outcome, scored, [*data.classes, *scored.unseen(data.classes)])
        edges = data.edges(sources.values(), inputs.model, rescale=self.rescale, principal=self.axes == "principal")
        asked = {field.name for field in fields(EdgeRecipe)} & {field.name for field in fields(self)}
        recipe = EdgeRecipe(**{name: getattr(self, name) for name in asked})
        different = list(dict.fromkeys(sources.values()))
        with bar(f"{self.name} {inputs.task.name} of {inputs.model}", None) as shown:
            for start in range(0, len(different), TOGETHER):
                group = different[start : start + TOGETHER]
                fits = train_edges(edges["train"], edges["dev"], group, recipe, range(self.seeds), shown.advance)
                scores.take(edges[self.split], fits)
        scores.finish(sources, len(data.widths))
        return outcome


class _Scores:
    """Turns predictions into rows, items and the table `sentences`."""

    def __init__(self, outcome: Outcome, targets: EdgeTargets, labels: list[str]) -> None:
        self.outcome, self.targets, self.labels = outcome, targets, labels
        self.sentence = np.repeat(np.arange(len(targets.ids)), np.diff(targets.firsts))
        self.found: dict[Source, list[tuple[EdgeFit, EdgeCounts]]] = {}
        """Per source, a probe per seed."""

    def take(self, edges: Edges, fits: Sequence[EdgeFit]) -> None:
        """Let probes predict."""
        tenney = tenney_labels(self.labels)
        counts = [EdgeCounts(edges.labels, self.sentence, tenney) for _ in fits]
        for targets, logits in predictions(edges, [fit.probe for fit in fits]):
            for mine, given in zip(counts, (logits > 0).numpy(), strict=True):
                mine.add(targets, given)
        for fit, mine in zip(fits, counts, strict=True):
            self.found.setdefault(fit.probe.source, []).append((fit, mine))

    def finish(self, sources: Mapping[Place, Source], layers: int) -> None:
        """Put everything into the outcome, by the places of the sources; the model has so many layers."""
        for place, source in sources.items():
            for fit, counts in self.found[source]:
                self._probe_rows(place, fit, counts)
        mixes = sorted({source for source in sources.values() if source.mixed})
        if len(mixes) == layers > 1:
            self._expected_layers(mixes)
        elif any(place.axis for place in sources):
            few = "it takes a mix of layers 0 to k for every k, of two layers at least (inputs: mixes)"
            self.outcome.absent |= dict.fromkeys(("expected_layer", "differential_score"), few)
        probes = [(place, *probe) for place, source in sources.items() for probe in self.found[source]]
        ids = np.array(self.targets.ids, dtype=object)
        self.outcome.items = {
            "sentence": np.tile(ids[self.sentence], len(probes)),
            "word": np.tile(self.targets.numbers.astype(np.int32), len(probes)),
            **_of_probes(probes, len(self.sentence)),
            "correct": np.concatenate([counts.correct for _, _, counts in probes]),
        }
        self.outcome.tables["sentences"] = {
            "sentence": np.tile(ids, len(probes)),
            **_of_probes(probes, len(ids)),
            "targets": np.tile(np.diff(self.targets.firsts).astype(np.int32), len(probes)),
            **dict(_sums([counts for _, _, counts in probes])),
        }

    def _probe_rows(self, place: Place, fit: EdgeFit, counts: EdgeCounts) -> None:
        source, add = fit.probe.source, self.outcome.add
        where: dict[str, Any] = {**place.where, "probe_seed": fit.probe.seed}
        for scorer in SCORERS:
            add(f"f1_{scorer}", counts.f1(scorer), **where, n=len(self.sentence))
        add("accuracy", counts.correct.mean(), **where, n=len(self.sentence))
        for label, value, gold in zip(self.labels, counts.label_f1(), counts.labels[:, 2], strict=True):
            add("f1", value, **where, label=label, n=int(gold))
        add("dev_f1", fit.dev_f1, **where)
        add("steps", fit.steps, **where)
        add("parameters", fit.probe.size, **where)
        if source.mixed:
            weights = fit.probe.mix_weights().detach().double().numpy()
            for layer, weight in zip(source.layers, weights, strict=True):
                add("mix_weight", weight, **where, layer=layer)
            add("mix_gamma", fit.probe.gamma.item(), **where)
            add("centre_of_gravity", centre_of_gravity(weights), **where)
            add("kl", divergence_from_uniform(weights), **where)

    def _expected_layers(self, mixes: Sequence[Source]) -> None:
        """mixes: of layers 0 to 0, 1, 2, ..."""
        for scorer in SCORERS:
            for seed, probes in enumerate(zip(*(self.found[source] for source in mixes), strict=True)):
                scores = np.array([counts.f1(scorer) for _, counts in probes])
                where: dict[str, Any] = {"subset": scorer, "probe_seed": seed}
                for layer, gained in enumerate(np.diff(scores), start=1):
                    self.outcome.add("differential_score", gained, **where, layer=layer)
                if np.isfinite(expected := expected_layer(scores)):
                    self.outcome.add("expected_layer", expected, **where)
        if not any(row["metric"] == "expected_layer" for row in self.outcome.rows):
            self.outcome.absent["expected_layer"] = "the mix of all layers is no better than layer 0"


def _of_probes(probes: Sequence[tuple[Place, EdgeFit, EdgeCounts]], repeats: int) -> dict[str, np.ndarray]:
    """What a probe reads, and its seed."""
    seeds = np.array([fit.probe.seed for _, fit, _ in probes], dtype=np.int16)
    return {**place_columns([place for place, _, _ in probes], repeats), "probe_seed": np.repeat(seeds, repeats)}


def _sums(probes: Sequence[EdgeCounts]) -> Iterator[tuple[str, np.ndarray]]:
    """By column, what F1 is made of, of every probe and sentence."""
    for scorer, prefix in SCORERS.items():
        sums = np.concatenate([counts.sentences[scorer] for counts in probes]).astype(np.int32)
        yield from ((prefix + name, sums[:, at]) for at, name in enumerate(("hits", "predicted", "gold")))
