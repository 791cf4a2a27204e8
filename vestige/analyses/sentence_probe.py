"""Sentence-level probing: what can a simple classifier read from one vector per sentence, layer by layer?

mosbach2020, sections 3 and 4. As the layer-wise probe of words, with a pooled vector and a label per
sentence or pair: [CLS] or the mean of all tokens in the paper. It does not say how its probes were
trained; the protocol `senteval` is that of the suite its tasks come from.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from torch import Tensor

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.metric import WHOLE, Metric
from vestige.analyses.probe_protocols import fit_converged, fit_mlp, fit_senteval
from vestige.analyses.probe_scores import CONTROL, IS_BASELINE, PROBE_METRICS, Scores, baseline, given_metrics
from vestige.analyses.settings import Count, Dropped, Penalty, Positive
from vestige.corpus.control import sentence_baselines, sentence_types
from vestige.corpus.types import Sentence
from vestige.errors import AnalysisError
from vestige.probes.linear.mlp import MlpRecipe
from vestige.probes.linear.senteval import SentEvalRecipe
from vestige.probes.problem import Scale
from vestige.probes.rows import LabelledRows
from vestige.progress import bar
from vestige.representations.pool import SENTENCE_POOLINGS
from vestige.representations.store import Representations, lost_words

LEAST_DEV = 10
"""Sentences by which a penalty can be chosen or training stopped."""


@dataclass(frozen=True)
class SentenceProbe(Analysis):
    """A probe per layer of every pooling asked for.

    Protocols. `converged`: that of the layer-wise probe of words. `senteval`: Adam 1e-3, batches of 64,
    weight decay from a grid by dev, SentEval's early stopping, no scaling; seed 0 is SentEval's own. It is trained
    on standardised vectors too, and a comparison claims only what both show.

    Rows and items are those of the layer-wise probe, an item being a sentence (`word` is -1); each names its
    pooling.
    """

    name: ClassVar[str] = "sentence_probe"
    title: ClassVar[str] = "Sentence-level probe"
    source: ClassVar[str] = "mosbach2020, section 4; SentEval (Conneau & Kiela 2018)"
    needs = frozenset({"hidden_states"})
    levels = ("sentence", "sentence_pair")
    metrics: ClassVar[tuple[Metric, ...]] = (
        *PROBE_METRICS,
        baseline("first_word_majority", "majority label of the first word"),
        baseline("control_majority", "majority label of the control task"),
        Metric(
            "unseen_first_word_share", "sentences with an unseen first word", "percent", along=(WHOLE,), role="detail"
        ),
        Metric("epochs", "epochs of training", "count", decimals=0, role="detail"),
        Metric("dev_accuracy", "accuracy on dev", "percent", "higher", decimals=1, role="detail"),
    )
    version = 7

    protocol: Literal["converged", "senteval"] = "converged"
    """How the probe is trained: until it has converged, or as SentEval does."""
    probe: Literal["linear", "mlp"] = "linear"
    """A softmax regression, or a network with one hidden layer."""
    pooling: str | tuple[str, ...] = "cls"
    """One, or several as a list or joined by `+`; kept joined."""
    seeds: Count = 3
    """Control tasks, and trainings where the probe depends on its seed."""
    control: Literal["first_word", "sentence", "none"] = "first_word"
    """What gets a random label: the first word, or the sentence; the latter can only be memorised (split: train)."""
    l2: Penalty | None = None
    """None: chosen on dev."""
    tolerance: Positive = 1e-2
    """Largest certified distance from the optimum, in nats per sentence (converged, linear)."""
    scale: Scale = "layer"
    """layer: one number for all units of a layer, with outlier units shrunk; unit: every unit to unit size."""
    hidden: Count = 50
    """Hidden units of the mlp."""
    dropout: Dropped = 0.0
    """Of the mlp's hidden units (senteval)."""
    split: str = "test"
    """The split that is scored."""

    def __post_init__(self) -> None:
        names = tuple(self.pooling.split("+")) if isinstance(self.pooling, str) else tuple(self.pooling)
        wrong = [name for name in names if name not in SENTENCE_POOLINGS]
        if wrong or not names or len(set(names)) < len(names):
            raise AnalysisError(
                f"sentence_probe: {wrong[0]!r} is no pooling of sentences"
                if wrong
                else f"sentence_probe: expected one or more poolings, each once, found {list(names)}",
                fix=f"choose from {', '.join(SENTENCE_POOLINGS)}",
            )
        object.__setattr__(self, "pooling", "+".join(names))
        super().__post_init__()

    @property
    def poolings(self) -> tuple[str, ...]:
        return tuple(str(self.pooling).split("+"))

    @property
    def stochastic(self) -> bool:
        return self.protocol == "senteval" or self.probe == "mlp"

    @property
    def given(self) -> tuple[Metric, ...]:
        linear, control = self.probe == "linear", self.control != "none"
        return given_metrics(
            self.metrics, linear=linear, protocol=self.protocol, control=control, penalised=self.l2 != 0
        )

    def run(self, inputs: Inputs) -> Outcome:
        outcome, items = Outcome(), []
        for lost in lost_words(inputs.representations.values()):
            outcome.add(**lost, pooling=self.poolings[0])
        layers = inputs.split("train").layers
        with bar(f"{self.name} {inputs.task.name} of {inputs.model}", layers * len(self.poolings)) as shown:
            for pooling in self.poolings:
                found = self._fit(self._rows(inputs.of_pooling(pooling)), inputs.baseline, shown.advance)
                outcome.rows += [{**row, "pooling": pooling} for row in found.rows]
                items.append({**found.items, "pooling": np.full(len(found.items["word"]), pooling)})
        outcome.items = {name: np.concatenate([part[name] for part in items]) for name in items[0]}
        if self.control != "none" and inputs.baseline:
            outcome.absent |= dict.fromkeys(CONTROL, IS_BASELINE)
        return outcome

    def _rows(self, inputs: Inputs) -> LabelledRows:
        """Labels and control types of every sentence of train, dev and the split that is scored."""
        representations = {split: inputs.split(split) for split in dict.fromkeys(("train", "dev", self.split))}
        by: Literal["first_word", "sentence"] = "sentence" if self.control == "sentence" else "first_word"
        for split, found in representations.items():
            _check_vectors(inputs, split, found)
        types = {split: sentence_types(inputs.task.corpus[split], by) for split in representations}
        rows = LabelledRows.of(inputs.task, representations, inputs.model, self.scale, types)
        _check_unseen(rows)
        chosen_on_dev = self.l2 is None or self.protocol == "senteval" or self.probe == "mlp"
        if chosen_on_dev and len(rows.labels["dev"]) < LEAST_DEV:
            raise AnalysisError(
                f"task {inputs.task.name!r} of corpus {inputs.task.corpus.name!r} has {len(rows.labels['dev'])} "
                "sentences in dev, and the penalty or the end of training is chosen on them",
                fix=f"give dev at least {LEAST_DEV} sentences, or set l2 (converged, linear)",
            )
        return rows

    def _fit(self, rows: LabelledRows, is_baseline: bool, tick: Callable[..., None]) -> Outcome:
        """The rows and items of one pooling."""
        outcome, gold = Outcome(), rows.labels[self.split]
        for metric, value in sentence_baselines(rows.task, self.split).items():
            outcome.add(metric, value, n=len(gold))
        controls = None if self.control == "none" or is_baseline else rows.control_labels(self.seeds)
        if controls is not None:
            for seed, (seen, held) in enumerate(zip(controls["train"], controls[self.split], strict=True)):
                share = (held == seen.mode().values).double().mean()
                outcome.add("control_majority", float(share), probe_seed=seed, n=len(held))
        scores = Scores(outcome, rows, self.split, controls)
        scores.outliers()
        for group in rows.representations["train"].width_groups:
            self._fit_group(scores, group)
            tick(len(group))
        outcome.items = scores.items()
        return outcome

    def _fit_group(self, scores: Scores, group: range) -> None:
        """The layers of `group`, which have one width."""
        if self.protocol == "senteval":
            recipe = SentEvalRecipe(hidden=self.hidden if self.probe == "mlp" else 0, dropout=self.dropout)
            recipe = recipe if self.l2 is None else replace(recipe, l2=(self.l2,))
            order = _order(scores.rows.task.corpus["train"], scores.rows.labels["train"])
            for layer in group:
                fit_senteval(scores, layer, self.seeds, recipe, order)
        elif self.probe == "mlp":
            fit_mlp(scores, group, self.seeds, MlpRecipe(hidden=self.hidden), raw=False)
        else:
            for layer in group:
                fit_converged(scores, layer, l1=0.0, l2=self.l2, tolerance=self.tolerance)


def _check_vectors(inputs: Inputs, split: str, found: Representations) -> None:
    """A vector per sentence, none of them empty."""
    sentences = inputs.task.corpus[split]
    if not np.array_equal(found.index, [(number, -1) for number in range(len(sentences))]):
        raise AnalysisError(
            f"{inputs.model}, {split!r}: expected a vector for each of {len(sentences)} sentences, "
            f"found {len(found)} vectors of words or of other sentences",
            fix=f"choose a pooling of sentences: {', '.join(SENTENCE_POOLINGS)}",
        )
    empty = [row for row in np.flatnonzero(~found.layer(0).any(1)) if not found.layer(found.layers - 1)[row].any()]
    if empty:
        named = sentences[empty[0]]
        raise AnalysisError(
            f"{inputs.model}: nothing is left of {named.source or f'sentence {named.id}'} and {len(empty) - 1} more "
            f"sentences of {split!r}: the tokenizer makes no token of their words, and the vector is zero",
            fix="remove them, or choose a pooling with special tokens (cls, sentence_mean)",
        )


def _check_unseen(rows: LabelledRows) -> None:
    """No sentence has a label that train lacks."""
    for split, labels in rows.labels.items():
        if unseen := (labels < 0).nonzero().flatten().tolist():
            raise AnalysisError(
                f"task {rows.task.name!r} of corpus {rows.task.corpus.name!r}: {len(unseen)} sentences of {split!r} "
                f"have a label that train lacks, such as {rows.task.labels(split)[unseen[0]]!r}",
                fix="leave these sentences out, or give train examples of every label",
            )


def _order(sentences: tuple[Sentence, ...], labels: Tensor) -> np.ndarray:
    """SentEval's order of training sentences, by length and label; equals by id, so that none plays a role."""

    def place(row: int) -> tuple[int, int, str]:
        sentence = sentences[row]
        return len(sentence.words) + len(sentence.second), int(labels[row]), sentence.id

    return np.array(sorted(range(len(sentences)), key=place))
