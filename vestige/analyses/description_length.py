"""Description length: how many bits do the labels cost someone who has a layer's vectors?

merchant2020 appendix B, after Voita & Titov 2020. Beside accuracy, the length of the code tells
how hard a probe must work: a layer from which few examples teach the property is cheap. Online
code by default; the variational code prices the probe itself. Labels of spans are sent by edge probes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log2
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from torch import Tensor

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.settings import Count, Share, Some, Whole
from vestige.corpus.types import Task
from vestige.errors import AnalysisError
from vestige.probes.codes.coders import Labelled, LinearCoder, MlpCoder
from vestige.probes.codes.edges import EdgeCoder, Labels
from vestige.probes.codes.online import FRACTIONS, Blocks, Compat, OnlineCode, cut_blocks, online_code, sending_order
from vestige.probes.codes.sending import LabelledRows, Sent
from vestige.probes.codes.variational import VariationalRecipe, train_variational
from vestige.probes.codes.variational_edges import train_variational_edges
from vestige.probes.edges.model import Edges, Source, named_sources
from vestige.probes.edges.targets import EdgeSplits
from vestige.probes.edges.training import TOGETHER
from vestige.probes.linear.mlp import MlpRecipe
from vestige.probes.problem import RESIDENT_BYTES, log_probabilities
from vestige.progress import Bar, bar
from vestige.representations.pool import SENTENCE_POOLINGS, AnyPooling

SPANS = ("span", "span_pair")


@dataclass(frozen=True)
class DescriptionLength(Analysis):
    """A code length per layer, of the task and of a control task; what every sentence takes, in the table `codes`."""

    name: ClassVar[str] = "description_length"
    title: ClassVar[str] = "Description length (MDL probe)"
    source: ClassVar[str] = "merchant2020, appendix B; Voita & Titov 2020"
    version = 8
    needs = frozenset({"hidden_states"})
    levels = ("token", "sentence", "sentence_pair", "span", "span_pair")

    code: Literal["online", "variational"] = "online"
    probe: Literal["linear", "mlp"] = "linear"
    """Of the online code; the variational one has a hidden layer. Spans are read by edge probes under both."""
    inputs: Annotated[tuple[str, ...], Some] = ("layers", "mix")
    """What edge probes read, in the words of `edge_probe`; else every layer is read by itself."""
    pooling: AnyPooling = "last"
    """Of words or sentences; `pieces`, all tokens of words, for spans alone."""
    seeds: Count | None = None
    """Orders in which the labels are sent, each with probes and a control task of its own. None: one of linear probes,
    three where the training of a probe depends on its seed (mlp, spans, variational)."""
    control: bool = True
    """Send a control task too (word-level tasks)."""
    fractions: Annotated[tuple[Share, ...], Some] = FRACTIONS
    """Ends of the blocks, as shares of the sentences."""
    inner_holdout: bool = False
    """Stop training by a tenth of what was sent, a strict code, not by the dev split as the authors do."""
    compat: Compat = "none"
    """`voita2020`: lengths as published, nats added to bits; predictions are not mixed with a uniform guess."""
    hidden: Count = 64
    """Hidden units of the mlp and of the variational code, whose edge probes also project to so many."""
    epochs: Count = 200
    """Epochs of the variational code, more where they have fewer than `least_steps` steps."""
    least_steps: Whole = VariationalRecipe.least_steps
    """Of the variational code; with fewer its length tells how long a probe was trained."""
    split: str = "test"
    """The split on which the last probe, trained on all labels, is scored."""

    def run(self, inputs: Inputs) -> Outcome:
        self._check(inputs.task)
        return self._of_spans(inputs) if inputs.task.level in SPANS else self._of_rows(inputs)

    def _check(self, task: Task) -> None:
        words = task.level in ("token", *SPANS)
        pieces = self.pooling == "pieces" and task.level not in SPANS
        if words == (self.pooling in SENTENCE_POOLINGS) or pieces:
            raise AnalysisError(
                f"pooling {self.pooling!r} does not fit task {task.name!r} at level {task.level}",
                fix=f"choose {'last or mean' if words else 'cls or sentence_mean'}",
            )
        if task.level not in SPANS and self.inputs != type(self).inputs:
            raise AnalysisError(
                f"inputs {', '.join(self.inputs)} are for tasks of spans; {task.name!r} is at level {task.level}",
                fix="leave inputs out: words and sentences are sent from every layer",
            )

    @property
    def _read(self) -> list[str]:
        """Splits; the variational code stops by no dev split."""
        return list(dict.fromkeys(("train", *(["dev"] if self.code == "online" else []), self.split)))

    @property
    def _recipe(self) -> VariationalRecipe:
        return VariationalRecipe(hidden=(self.hidden,), epochs=self.epochs, least_steps=self.least_steps)

    def _trained_by_chance(self, task: Task) -> bool:
        """Whether another seed trains another probe; the linear probes of online codes have one answer."""
        return self.code == "variational" or self.probe == "mlp" or task.level in SPANS

    def _seeds(self, task: Task) -> range:
        return range(self.seeds or (3 if self._trained_by_chance(task) else 1))

    def _of_rows(self, inputs: Inputs) -> Outcome:
        """Words or sentences with a label each."""
        stochastic, seeds = self._trained_by_chance(inputs.task), self._seeds(inputs.task)
        found = {split: inputs.split(split) for split in self._read}
        data = LabelledRows.of(inputs.task, found, inputs.model, principal=stochastic)
        control = self.control and not inputs.baseline and inputs.task.level == "token"
        outcome = Outcome()
        for remark in data.remarks():
            outcome.add(**remark)
        steps = len(seeds) * data.train.layers if self.code == "online" else None
        with bar(f"{self.name} {inputs.task.name} of {inputs.model}", steps) as shown:
            for seed in seeds:
                sent = Sent.of(data, seed, control)
                blocks = cut_blocks(sent.sizes, len(data.classes), self.fractions)
                ids = np.array([sentence.id for sentence in data.sentences["train"]], dtype=object)
                report = _Report(outcome, self.compat, seed, stochastic, ids[sent.sentences], sent.sizes)
                report.uniform(blocks, log2(len(data.classes)))
                if self.code == "online":
                    report.dropped(blocks, self.fractions)
                self._seed(report, data, sent, blocks, shown)
        return outcome

    def _of_spans(self, inputs: Inputs) -> Outcome:
        """Spans or pairs of them, with one label or a set of labels each."""
        data = EdgeSplits.of(inputs.task, {split: inputs.split(split) for split in self._read})
        sources = named_sources(self.inputs, data.widths)
        edges = data.edges(sources.values(), inputs.model, rescale=True, principal=True)
        ids = np.array(data.targets["train"].ids, dtype=object)
        outcome = Outcome()
        for remark in data.remarks():
            outcome.add(**remark)
        with bar(f"{self.name} {inputs.task.name} of {inputs.model}", None) as shown:
            for seed in self._seeds(inputs.task):
                self._edges(outcome, edges, ids, sources, seed, shown)
        return outcome

    def _edges(
        self,
        outcome: Outcome,
        edges: Mapping[str, Edges],
        ids: np.ndarray,
        sources: Mapping[str, Source],
        seed: int,
        shown: Bar,
    ) -> None:
        """ids: of the train sentences that have targets."""
        labels, order = Labels.of(edges["train"]), sending_order(ids.tolist(), seed)
        sent = edges["train"].in_order(order)
        blocks = labels.blocks(sent, self.fractions)
        report = _Report(outcome, self.compat, seed, True, ids[order], np.diff(sent.firsts), labels.of_target)
        report.uniform(blocks, labels.uniform)
        places = {
            name: {"layer": source.layers[0]} if name.startswith("layer ") else {"subset": name}
            for name, source in sources.items()
        }
        different = list(dict.fromkeys(sources.values()))
        if self.code == "variational":
            codes = train_variational_edges(sent, different, labels, self._recipe, seed, shown.advance)
            right = labels.right(edges[self.split], [code.probe for code in codes])
            for name, source in sources.items():
                mine, count = codes[at := different.index(source)], len(sent.labels) * labels.of_target
                bits = labels.uniform / labels.of_target
                report.variational("", places[name], (mine.kl, mine.data, mine.falling), count, bits)
                report.accuracy("", places[name], right[at])
            return
        report.dropped(blocks, self.fractions)
        for group in (different[at : at + TOGETHER] for at in range(0, len(different), TOGETHER)):
            mix = self.compat == "none"
            coder = EdgeCoder(sent, edges["dev"], labels, group, seed, self.inner_holdout, mix, tick=shown.advance)
            code = online_code(coder, blocks, labels.uniform, probes=len(group))
            coder.train_on(blocks.ends[-1])
            right = labels.right(edges[self.split], coder.probes)
            for name, source in sources.items():
                if source in group:
                    at = group.index(source)
                    report.online("", places[name], code, at)
                    report.accuracy("", places[name], right[at])

    def _seed(self, report: "_Report", data: LabelledRows, sent: Sent, blocks: Blocks, shown: Bar) -> None:
        for group in data.train.width_groups:
            if self.code == "variational":
                self._variational(report, data, sent, group, shown)
            elif self.probe == "mlp":
                self._mlp(report, data, sent, blocks, group)
                shown.advance(len(group))
            else:
                for layer in group:
                    self._linear(report, data, sent, blocks, layer)
                    shown.advance()

    def _linear(self, report: "_Report", data: LabelledRows, sent: Sent, blocks: Blocks, layer: int) -> None:
        coder = LinearCoder(
            sent.labelled(data, layer, RESIDENT_BYTES),
            Labelled(data.features("dev", layer), sent.labels["dev"]),
            len(data.classes),
            self.inner_holdout,
            mix=self.compat == "none",
        )
        code = online_code(coder, blocks, log2(len(data.classes)), probes=len(sent.names))
        fit = coder.trained(blocks.ends[-1])
        predicted = log_probabilities(fit, data.features(self.split, layer)).argmax(-1)
        for at, name in enumerate(sent.names):
            report.online(name, {"layer": layer}, code, at)
            report.accuracy(name, {"layer": layer}, predicted[at] == sent.labels[self.split][at])

    def _mlp(self, report: "_Report", data: LabelledRows, sent: Sent, blocks: Blocks, group: range) -> None:
        budget = RESIDENT_BYTES // len(group)
        coder = MlpCoder(
            [sent.labelled(data, layer, budget) for layer in group],
            [Labelled(data.features("dev", layer), sent.labels["dev"]) for layer in group],
            len(data.classes),
            MlpRecipe(hidden=self.hidden),
            self.inner_holdout,
            mix=self.compat == "none",
            seed=report.seed,
        )
        code = online_code(coder, blocks, log2(len(data.classes)), probes=len(group) * len(sent.names))
        coder.trained(blocks.ends[-1])
        predicted = coder.log_probabilities([data.features(self.split, layer) for layer in group]).argmax(-1)
        for place, layer in enumerate(group):
            for at, name in enumerate(sent.names):
                report.online(name, {"layer": layer}, code, place * len(sent.names) + at)
                report.accuracy(name, {"layer": layer}, predicted[place, at] == sent.labels[self.split][at])

    def _variational(self, report: "_Report", data: LabelledRows, sent: Sent, group: range, shown: Bar) -> None:
        budget = RESIDENT_BYTES // len(group)
        layers = [sent.labelled(data, layer, budget).features for layer in group]
        held = [data.features(self.split, layer) for layer in group]
        for at, name in enumerate(sent.names):
            labels = sent.labels["train"][at]
            fit = train_variational(layers, labels, len(data.classes), self._recipe, report.seed, shown.advance)
            predicted = fit.log_probabilities(held).argmax(-1)
            for place, layer in enumerate(group):
                code = (float(fit.kl[place]), float(fit.data[place]), float(fit.falling[place]))
                report.variational(name, {"layer": layer}, code, len(sent.order), log2(len(data.classes)))
                report.accuracy(name, {"layer": layer}, predicted[place] == sent.labels[self.split][at])


@dataclass(frozen=True)
class _Report:
    """Turns codes into rows; those of the control task are called control_..."""

    outcome: Outcome
    compat: Compat
    seed: int
    stochastic: bool
    """Whether the training of the probes depends on the seed."""
    sentences: np.ndarray
    """Ids, in the order in which they are sent."""
    sizes: np.ndarray
    """Rows of every sentence."""
    each: int = 1
    """Labels that are sent of every row."""

    def uniform(self, blocks: Blocks, bits: float) -> None:
        """bits: of a row by the uniform code, which is the same in every order."""
        if self.seed == 0:
            rows = blocks.ends[-1]
            self.outcome.add("uniform_codelength", rows * bits, n=rows * self.each)

    def dropped(self, blocks: Blocks, fractions: tuple[float, ...]) -> None:
        if self.seed == 0:
            self.outcome.add("dropped_fractions", blocks.dropped, n=len(fractions))

    def online(self, name: str, place: dict[str, Any], code: OnlineCode, probe: int) -> None:
        bits = code.block_bits(self.compat)[probe]
        ends = [end * self.each for end in code.blocks.ends]
        self._length(name, place, bits.sum(), code.uniform_bits, ends[-1])
        for end, size, mine in zip(ends, np.diff([0, *ends]).tolist(), bits, strict=True):
            where: dict[str, Any] = {**place, "probe_seed": self.seed, "axis": "labels sent", "x": end}
            self.outcome.add(f"{name}block_bits", mine, n=size, **where)
        if not name:
            self._sentences(place, code, probe)
        if untrained := int(code.untrained[probe].sum()):
            self.outcome.add(f"{name}untrained_blocks", untrained, **place, probe_seed=self.seed, n=len(ends))

    def _sentences(self, place: dict[str, Any], code: OnlineCode, probe: int) -> None:
        """Rows of the table `codes`: a sentence's bits, and those of the uniform code."""
        starts, count = np.cumsum(self.sizes) - self.sizes, len(self.sizes)
        rows = {
            "sentence": self.sentences,
            "layer": np.full(count, place.get("layer", -1), dtype=np.int16),
            "subset": np.full(count, place.get("subset", ""), dtype=object),
            "probe_seed": np.full(count, self.seed, dtype=np.int16),
            "stochastic": np.full(count, self.stochastic),
            "labels": (self.sizes * self.each).astype(np.int32),
            "uniform_bits": self.sizes * code.uniform,
            "bits": np.add.reduceat(code.label_bits(self.compat)[probe], starts),
        }
        known = self.outcome.tables.get("codes")
        self.outcome.tables["codes"] = (
            rows
            if known is None
            else {column: np.concatenate([known[column], values]) for column, values in rows.items()}
        )

    def variational(
        self, name: str, place: dict[str, Any], code: tuple[float, float, float], labels: int, bits: float
    ) -> None:
        """code: nats of the probe and of the labels, and how much it still fell; bits: of a label, uniformly coded."""
        factor = 1.0 if self.compat == "voita2020" else 1 / np.log(2)
        kl, data, falling = code
        self._length(name, place, (kl + data) * factor, labels * bits, labels)
        where: dict[str, Any] = {**place, "probe_seed": self.seed, "n": labels}
        for metric, value in (("probe_bits", kl * factor), ("data_bits", data * factor), ("still_falling", falling)):
            self.outcome.add(f"{name}{metric}", value, **where)

    def _length(self, name: str, place: dict[str, Any], bits: float, uniform: float, labels: int) -> None:
        where: dict[str, Any] = {**place, "probe_seed": self.seed, "n": labels}
        self.outcome.add(f"{name}codelength", bits, **where)
        self.outcome.add(f"{name}compression", uniform / bits, **where)
        self.outcome.add(f"{name}bits_per_label", bits / labels, **where)
        self.outcome.add(f"{name}saved", 1 - bits / uniform, **where)

    def accuracy(self, name: str, place: dict[str, Any], right: Tensor) -> None:
        value = float(right.double().mean())
        self.outcome.add(f"{name}accuracy", value, **place, probe_seed=self.seed, n=len(right))
