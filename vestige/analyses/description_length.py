"""Description length: how many bits do the labels cost someone who has a layer's vectors?

merchant2020 appendix B, after Voita & Titov 2020. Beside accuracy, the length of the code shows
how hard a probe must work: a layer from which few examples teach the property has a short one. Online
code by default; the variational code counts the bits of the probe itself. Labels of spans are sent by edge probes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log2
from typing import Annotated, ClassVar, Literal

import numpy as np

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.code_report import CONTROL, CodeReport, Codes, code_metrics, codes_table
from vestige.analyses.metric import Metric
from vestige.analyses.remarks import LOST, OF_TARGETS
from vestige.analyses.settings import Count, Share, Some, Whole
from vestige.corpus.types import Task
from vestige.errors import AnalysisError
from vestige.probes.codes.coders import Labelled, LinearCoder, MlpCoder
from vestige.probes.codes.edges import EdgeCoder, Labels
from vestige.probes.codes.online import FRACTIONS, Blocks, Compat, cut_blocks, online_code, sending_order
from vestige.probes.codes.sending import Sent
from vestige.probes.codes.variational import VariationalRecipe, train_variational
from vestige.probes.codes.variational_edges import train_variational_edges
from vestige.probes.edges.model import Edges, Source, placed_sources
from vestige.probes.edges.targets import EdgeSplits
from vestige.probes.edges.training import TOGETHER
from vestige.probes.linear.mlp import MlpRecipe
from vestige.probes.problem import RESIDENT_BYTES, log_probabilities
from vestige.probes.rows import LabelledRows, Place
from vestige.progress import Bar, bar
from vestige.representations.pool import SENTENCE_POOLINGS, AnyPooling
from vestige.representations.store import lost_words

SPANS = ("span", "span_pair")


@dataclass(frozen=True)
class DescriptionLength(Analysis):
    """A code length per layer, of the task and of a control task; what every sentence takes, in the table `codes`."""

    name: ClassVar[str] = "description_length"
    title: ClassVar[str] = "Description length (MDL probe)"
    source: ClassVar[str] = "merchant2020, appendix B; Voita & Titov 2020"
    metrics: ClassVar[tuple[Metric, ...]] = tuple(
        {metric.name: metric for code in ("variational", "online") for metric in code_metrics(code, True)}.values()
    )
    version = 9
    needs = frozenset({"hidden_states"})
    levels = ("token", "sentence", "sentence_pair", "span", "span_pair")

    code: Literal["online", "variational"] = "online"
    """online: labels are sent block by block, each by a probe trained on those before. variational: a probe is sent
    with the labels (Voita & Titov 2020)."""
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
    """Of the variational code; with fewer its length shows how long a probe was trained."""
    split: str = "test"
    """The split on which the last probe, trained on all labels, is scored."""

    @property
    def given(self) -> tuple[Metric, ...]:
        return code_metrics(self.code, self.control)

    def run(self, inputs: Inputs) -> Outcome:
        self._check(inputs.task)
        spans, outcome = inputs.task.level in SPANS, Outcome()
        codes: Codes = []
        (self._of_spans if spans else self._of_rows)(inputs, outcome, codes)
        if codes:
            outcome.tables["codes"] = codes_table(codes)
        if self.control and (inputs.baseline or inputs.task.level != "token"):
            controls = [metric.name for metric in self.given if metric.name.startswith(CONTROL)]
            outcome.absent |= dict.fromkeys(controls, "control tasks are of words, and baselines get none")
        return outcome

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

    def _of_rows(self, inputs: Inputs, outcome: Outcome, codes: Codes) -> None:
        """Words or sentences with a label each."""
        stochastic, seeds = self._trained_by_chance(inputs.task), self._seeds(inputs.task)
        found = {split: inputs.split(split) for split in self._read}
        rows = LabelledRows.of(inputs.task, found, inputs.model)
        control = self.control and not inputs.baseline and inputs.task.level == "token"
        for lost in lost_words(found.values()):
            outcome.add(**lost)
        outcome.absent |= {metric.name: "the task has no spans" for metric in OF_TARGETS}
        for split, labels in rows.labels.items():
            outcome.add("unseen_labels", int((labels < 0).sum()), split=split, n=len(labels))
        steps = len(seeds) * rows.layers if self.code == "online" else None
        with bar(f"{self.name} {inputs.task.name} of {inputs.model}", steps) as shown:
            for seed in seeds:
                sent = Sent.of(rows, seed, control=control, frame="principal" if stochastic else "standard")
                blocks = cut_blocks(sent.sizes, len(rows.classes), self.fractions)
                report = CodeReport(outcome, codes, self.compat, seed, stochastic, sent.ids, sent.sizes)
                report.uniform(blocks, log2(len(rows.classes)))
                if self.code == "online":
                    report.dropped(blocks, self.fractions)
                self._seed(report, sent, blocks, shown)

    def _of_spans(self, inputs: Inputs, outcome: Outcome, codes: Codes) -> None:
        """Spans or pairs of them, with one label or a set of labels each."""
        data = EdgeSplits.of(inputs.task, {split: inputs.split(split) for split in self._read})
        sources = placed_sources(self.inputs, data.widths)
        edges = data.edges(sources.values(), inputs.model, rescale=True, principal=True)
        ids = np.array(data.targets["train"].ids, dtype=object)
        for remark in data.remarks():
            outcome.add(**remark)
        outcome.absent |= {metric.name: "of spans, targets are counted" for metric in LOST}
        labels = Labels.of(edges["train"])
        with bar(f"{self.name} {inputs.task.name} of {inputs.model}", None) as shown:
            for seed in self._seeds(inputs.task):
                order = sending_order(ids.tolist(), seed)
                sent = edges["train"].in_order(order)
                sizes = np.diff(sent.firsts)
                report = CodeReport(outcome, codes, self.compat, seed, True, ids[order], sizes, labels.of_target)
                self._edges(report, {**edges, "train": sent}, labels, sources, shown)

    def _edges(
        self,
        report: CodeReport,
        edges: Mapping[str, Edges],
        labels: Labels,
        sources: Mapping[Place, Source],
        shown: Bar,
    ) -> None:
        """The sentences of train are in the order in which they are sent."""
        sent, seed = edges["train"], report.seed
        blocks = labels.blocks(sent, self.fractions)
        report.uniform(blocks, labels.uniform)
        different = list(dict.fromkeys(sources.values()))
        if self.code == "variational":
            codes = train_variational_edges(sent, different, labels, self._recipe, seed, shown.advance)
            right = labels.right(edges[self.split], [code.probe for code in codes])
            for place, source in sources.items():
                mine, count = codes[at := different.index(source)], len(sent.labels) * labels.of_target
                bits = labels.uniform / labels.of_target
                report.variational("", place, (mine.kl, mine.data, mine.falling), count, bits)
                report.accuracy("", place, right[at])
            return
        report.dropped(blocks, self.fractions)
        for group in (different[at : at + TOGETHER] for at in range(0, len(different), TOGETHER)):
            mix = self.compat == "none"
            coder = EdgeCoder(sent, edges["dev"], labels, group, seed, self.inner_holdout, mix, tick=shown.advance)
            code = online_code(coder, blocks, labels.uniform, probes=len(group))
            coder.train_on(blocks.ends[-1])
            right = labels.right(edges[self.split], coder.probes)
            for place, source in sources.items():
                if source in group:
                    at = group.index(source)
                    report.online("", place, code, at)
                    report.accuracy("", place, right[at])

    def _seed(self, report: CodeReport, sent: Sent, blocks: Blocks, shown: Bar) -> None:
        for group in sent.rows.representations["train"].width_groups:
            if self.code == "variational":
                self._variational(report, sent, group, shown)
            elif self.probe == "mlp":
                self._mlp(report, sent, blocks, group)
                shown.advance(len(group))
            else:
                for layer in group:
                    self._linear(report, sent, blocks, layer)
                    shown.advance()

    def _linear(self, report: CodeReport, sent: Sent, blocks: Blocks, layer: int) -> None:
        coder = LinearCoder(
            sent.labelled(layer, RESIDENT_BYTES),
            Labelled(sent.features("dev", layer), sent.labels["dev"]),
            len(sent.rows.classes),
            self.inner_holdout,
            mix=self.compat == "none",
        )
        code = online_code(coder, blocks, log2(len(sent.rows.classes)), probes=len(sent.names))
        fit = coder.trained(blocks.ends[-1])
        predicted = log_probabilities(fit, sent.features(self.split, layer)).argmax(-1)
        for at, name in enumerate(sent.names):
            report.online(name, Place(layer=layer), code, at)
            report.accuracy(name, Place(layer=layer), predicted[at] == sent.labels[self.split][at])

    def _mlp(self, report: CodeReport, sent: Sent, blocks: Blocks, group: range) -> None:
        budget = RESIDENT_BYTES // len(group)
        coder = MlpCoder(
            [sent.labelled(layer, budget) for layer in group],
            [Labelled(sent.features("dev", layer), sent.labels["dev"]) for layer in group],
            len(sent.rows.classes),
            MlpRecipe(hidden=self.hidden),
            self.inner_holdout,
            mix=self.compat == "none",
            seed=report.seed,
        )
        code = online_code(coder, blocks, log2(len(sent.rows.classes)), probes=len(group) * len(sent.names))
        coder.trained(blocks.ends[-1])
        predicted = coder.log_probabilities([sent.features(self.split, layer) for layer in group]).argmax(-1)
        for place, layer in enumerate(group):
            for at, name in enumerate(sent.names):
                report.online(name, Place(layer=layer), code, place * len(sent.names) + at)
                report.accuracy(name, Place(layer=layer), predicted[place, at] == sent.labels[self.split][at])

    def _variational(self, report: CodeReport, sent: Sent, group: range, shown: Bar) -> None:
        budget = RESIDENT_BYTES // len(group)
        layers = [sent.labelled(layer, budget).features for layer in group]
        held = [sent.features(self.split, layer) for layer in group]
        for at, name in enumerate(sent.names):
            labels = sent.labels["train"][at]
            fit = train_variational(layers, labels, len(sent.rows.classes), self._recipe, report.seed, shown.advance)
            predicted = fit.log_probabilities(held).argmax(-1)
            for place, layer in enumerate(group):
                code = (float(fit.kl[place]), float(fit.data[place]), float(fit.falling[place]))
                report.variational(name, Place(layer=layer), code, len(sent.order), log2(len(sent.rows.classes)))
                report.accuracy(name, Place(layer=layer), predicted[place] == sent.labels[self.split][at])
