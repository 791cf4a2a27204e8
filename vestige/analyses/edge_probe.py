"""Edge probe: do the vectors of a span, or of two, tell what it is, or how they are related?

merchant2020 section 4, after Tenney et al. 2019. One probe for parts of speech, phrases, entities,
dependencies, semantic roles, coreference and relations: they differ only in their spans and labels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.settings import Count, Dropped, Penalty, Positive, Share, Some
from vestige.measures.edge_scores import (
    EdgeCounts,
    Scorer,
    centre_of_gravity,
    divergence_from_uniform,
    expected_layer,
    tenney_labels,
)
from vestige.probes.edges.model import EdgeRecipe, Edges, Source, named_sources
from vestige.probes.edges.targets import EdgeSplits, EdgeTargets
from vestige.probes.edges.training import TOGETHER, EdgeFit, predictions, train_edges
from vestige.progress import bar
from vestige.representations.pool import SpanPooling

SCORERS: tuple[Scorer, ...] = ("micro", "tenney")


@dataclass(frozen=True)
class EdgeProbe(Analysis):
    """Probes of single layers and of mixes of them, on the same targets."""

    name: ClassVar[str] = "edge_probe"
    title: ClassVar[str] = "Edge probe"
    source: ClassVar[str] = "merchant2020, section 4; Tenney et al. 2019"
    needs = frozenset({"hidden_states"})
    levels = ("span", "span_pair")
    version = 3

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
    hidden: Count = 256
    dropout: Dropped = 0.3
    rate: Positive = 1e-4
    mix_rate: Positive | None = None
    """Of the weights of mixes; None: the same. At 1e-4 they hardly leave their start in short trainings."""
    batch: Count = 32
    """Sentences a step reads."""
    validate_every: Count | None = None
    """Steps between two looks at dev; None: 1,000, and 100 where train has fewer than 10,000 sentences."""
    max_validations: Count | None = None
    """None: 250, and 100 where train has fewer than 10,000 sentences."""
    patience: Count = 20
    """A probe stops when so many looks at dev in a row have brought nothing."""
    gain: Penalty = 1e-4
    """F1 that is nothing."""
    decay: Share = 0.5
    """Factor on the rate whenever `decay_after` looks at dev in a row have brought nothing."""
    decay_after: Count = 5
    min_rate: Penalty = 1e-6
    """A probe stops when its rate falls below."""
    clip: Positive = 5.0
    """Norm that gradients are cut down to."""
    dev_sentences: Count = 5000
    """Sentences of dev that are looked at, the first ones."""
    split: str = "test"
    """The split that is scored."""

    @property
    def stochastic(self) -> bool:
        return True

    def run(self, inputs: Inputs) -> Outcome:
        splits = dict.fromkeys(("train", "dev", self.split))
        data = EdgeSplits.of(inputs.task, {split: inputs.split(split) for split in splits})
        outcome = Outcome()
        for remark in data.remarks():
            outcome.add(**remark)
        sources = named_sources(self.inputs, data.widths)
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


def _place(name: str, source: Source) -> dict[str, Any]:
    """What rows say of an input: its layer, where it is one of them, else its name; mixes lie along an axis."""
    if name.startswith("layer "):
        return {"layer": source.layers[0]}
    if name.startswith("mix 0-"):
        return {"subset": "mixes", "axis": "last layer mixed", "x": source.layers[-1]}
    return {"subset": name}


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

    def finish(self, sources: Mapping[str, Source], layers: int) -> None:
        """Put everything into the outcome, under the names of the sources; the model has so many layers."""
        for name, source in sources.items():
            for fit, counts in self.found[source]:
                self._probe_rows(name, fit, counts)
        mixes = sorted(source for name, source in sources.items() if name.startswith("mix 0-"))
        if len(mixes) == layers > 1:
            self._expected_layers(mixes)
        self.outcome.items = self._items(sources)
        self.outcome.tables["sentences"] = self._sentences(sources)

    def _probe_rows(self, name: str, fit: EdgeFit, counts: EdgeCounts) -> None:
        source, add = fit.probe.source, self.outcome.add
        where: dict[str, Any] = {**_place(name, source), "probe_seed": fit.probe.seed}
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

    def _items(self, sources: Mapping[str, Source]) -> dict[str, np.ndarray]:
        """A row per input and target: the share of seeds whose probes gave exactly the right labels."""
        right = [np.mean([counts.correct for _, counts in self.found[source]], axis=0) for source in sources.values()]
        ids = np.array(self.targets.ids, dtype=object)
        return {
            "sentence": np.tile(ids[self.sentence], len(sources)),
            "word": np.tile(self.targets.numbers.astype(np.int32), len(sources)),
            "subset": np.repeat(np.array(list(sources), dtype=object), len(self.sentence)),
            "correct": np.concatenate(right),
        }

    def _sentences(self, sources: Mapping[str, Source]) -> dict[str, np.ndarray]:
        """A row per input, seed and sentence, with what F1 is made of: see `f1_differences`."""
        probes = [(name, *probe) for name, source in sources.items() for probe in self.found[source]]
        count = len(self.targets.ids)
        table = {
            "sentence": np.tile(np.array(self.targets.ids, dtype=object), len(probes)),
            "subset": np.repeat(np.array([name for name, *_ in probes], dtype=object), count),
            "probe_seed": np.repeat(np.array([fit.probe.seed for _, fit, _ in probes], dtype=np.int16), count),
            "targets": np.tile(np.diff(self.targets.firsts).astype(np.int32), len(probes)),
        }
        for scorer, prefix in zip(SCORERS, ("", "tenney_"), strict=True):
            sums = np.concatenate([counts.sentences[scorer] for _, _, counts in probes]).astype(np.int32)
            table |= {prefix + name: sums[:, at] for at, name in enumerate(("hits", "predicted", "gold"))}
        return table
