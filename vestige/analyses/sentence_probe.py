"""Sentence-level probing: what can a simple classifier read from one vector per sentence, layer by layer?

mosbach2020, sections 3 and 4. As the layer-wise probe of words, with a pooled vector and a label per
sentence or pair: [CLS] or the mean of all tokens in the paper. It does not say how its probes were
trained; the protocol `senteval` is that of the suite its tasks come from.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.layer_probe import LayerProbe
from vestige.analyses.probe_scores import Data, Frame, Scores
from vestige.analyses.rows import WordRows
from vestige.analyses.settings import Count, Dropped, Penalty, Positive
from vestige.corpus.control import sentence_baselines, sentence_types
from vestige.corpus.types import Sentence, Task
from vestige.errors import AnalysisError
from vestige.probes.linear.senteval import SEED, SentEvalRecipe, solve_senteval
from vestige.probes.problem import Scale
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

    Rows and items are those of the layer-wise probe, an item being a sentence (`word` is -1). Of several
    poolings the first has them so; rows of the others name their pooling in `subset`, items in `subset`
    after task or control. Items have a column `pooling` in any case.
    """

    name: ClassVar[str] = "sentence_probe"
    title: ClassVar[str] = "Sentence-level probe"
    source: ClassVar[str] = "mosbach2020, section 4; SentEval (Conneau & Kiela 2018)"
    needs = frozenset({"hidden_states"})
    levels = ("sentence", "sentence_pair")
    version = 4

    protocol: Literal["converged", "senteval"] = "converged"
    probe: Literal["linear", "mlp"] = "linear"
    pooling: str | tuple[str, ...] = "cls"
    """One, or several as a list or joined by `+`; kept joined."""
    seeds: Count = 3
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

    def run(self, inputs: Inputs) -> Outcome:
        outcome, items = Outcome(), []
        layers = inputs.split("train").layers
        with bar(f"{self.name} {inputs.task.name} of {inputs.model}", layers * len(self.poolings)) as shown:
            for number, pooling in enumerate(self.poolings):
                mine = inputs if number == 0 else _beside(inputs, pooling)
                rows = self._rows(mine)
                if number == 0:
                    self._describe(outcome, inputs, len(rows.labels[self.split]))
                found = self._fit(mine, rows, shown.advance)
                of = {"subset": pooling} if number else {}
                outcome.rows += [{**row, **of} for row in found.rows]
                if number:
                    found.items["subset"] = np.char.add(found.items["subset"].astype(str), f" {pooling}")
                items.append({**found.items, "pooling": np.full(len(found.items["subset"]), pooling)})
        outcome.items = {name: np.concatenate([part[name] for part in items]) for name in items[0]}
        return outcome

    def _describe(self, outcome: Outcome, inputs: Inputs, sentences: int) -> None:
        for metric, value in sentence_baselines(inputs.task, self.split).items():
            outcome.add(metric, value, n=sentences)
        for lost in lost_words(inputs.representations.values()):
            outcome.add(**lost)

    def _rows(self, inputs: Inputs) -> WordRows:
        """Labels and control types of every sentence of train, dev and the split that is scored."""
        representations = {split: inputs.split(split) for split in dict.fromkeys(("train", "dev", self.split))}
        by: Literal["first_word", "sentence"] = "sentence" if self.control == "sentence" else "first_word"
        labels, types = {}, {}
        for split, found in representations.items():
            _check_vectors(inputs, split, found)
            sentences = inputs.task.corpus[split]
            labels[split] = _labels(inputs.task, split)
            types[split] = sentence_types(sentences, by)
        classes = sorted(set(labels["train"]))
        _check_classes(inputs.task, classes, labels)
        chosen_on_dev = self.l2 is None or self.protocol == "senteval" or self.probe == "mlp"
        if chosen_on_dev and len(labels["dev"]) < LEAST_DEV:
            raise AnalysisError(
                f"task {inputs.task.name!r} of corpus {inputs.task.corpus.name!r} has {len(labels['dev'])} sentences "
                f"in dev, and the penalty or the end of training is chosen on them",
                fix=f"give dev at least {LEAST_DEV} sentences, or set l2 (converged, linear)",
            )
        number = {label: index for index, label in enumerate(classes)}
        numbers = {split: torch.tensor([number[label] for label in found]) for split, found in labels.items()}
        return WordRows(representations, types, numbers, classes)

    def _fit(self, inputs: Inputs, rows: WordRows, tick: Callable[..., None]) -> Outcome:
        """The rows and items of one pooling."""
        train = rows.representations["train"]
        data, outcome = Data.of(rows, inputs.model, self.scale), Outcome()
        scores = Scores(outcome, data, self.split)
        scores.outliers()
        controls = None if self.control == "none" or inputs.baseline else rows.control_labels(self.seeds)
        if controls is not None:
            for seed, (seen, held) in enumerate(zip(controls["train"], controls[self.split], strict=True)):
                share = (held == seen.mode().values).double().mean()
                outcome.add("control_majority", float(share), probe_seed=seed, n=len(held))
        if self.protocol == "senteval":
            order = _order(inputs.task.corpus["train"], rows.labels["train"])
            for layer in range(data.layers):
                self._fit_senteval(layer, data, controls, order, scores)
                tick()
        else:
            same = {name: getattr(self, name) for name in ("probe", "seeds", "l2", "tolerance", "hidden", "split")}
            for group in train.width_groups:
                LayerProbe(**same).fit_group(group, data, controls, scores, tick)
        outcome.items = scores.items(inputs.task)
        return outcome

    def _fit_senteval(
        self, layer: int, data: Data, controls: dict[str, Tensor] | None, order: np.ndarray, scores: Scores
    ) -> None:
        recipe = SentEvalRecipe(hidden=self.hidden if self.probe == "mlp" else 0, dropout=self.dropout)
        recipe = recipe if self.l2 is None else replace(recipe, l2=(self.l2,))
        log_p = self._senteval_probes(layer, data, controls, order, recipe, "raw", scores)
        scores.task(layer, log_p[:, 0])
        if controls is not None:
            scores.control(layer, log_p[:, 1], controls[self.split])
        scores.standardised(layer, self._senteval_probes(layer, data, None, order, recipe, "principal")[:, 0])

    def _senteval_probes(
        self,
        layer: int,
        data: Data,
        controls: dict[str, Tensor] | None,
        order: np.ndarray,
        recipe: SentEvalRecipe,
        frame: Frame,
        watched: Scores | None = None,
    ) -> Tensor:
        """(seeds, 1 or 2, sentences, classes): log-probabilities of the task, and of the control task if given."""
        train, dev, held = (data.features(split, layer, frame) for split in ("train", "dev", self.split))
        train, found, seen = train.resident(), [], []
        for seed in range(self.seeds):
            labels, dev_labels = (
                torch.stack([data.labels[split], *([] if controls is None else [controls[split][seed]])])
                for split in ("train", "dev")
            )
            fit = solve_senteval(train, labels, dev, dev_labels, len(data.classes), recipe, SEED + seed, order)
            if watched is not None:
                for metric in ("l2", "epochs", "dev_accuracy"):
                    watched.outcome.add(metric, float(getattr(fit, metric)[0]), layer=layer, probe_seed=seed)
                seen.append([fit.log_probabilities(rows)[0] for rows in (train, dev)])
            found.append(fit.log_probabilities(held))
        if watched is not None:
            on_train, on_dev = map(torch.stack, zip(*seen, strict=True))
            watched.trained(layer, on_train, on_dev, converged=False)
        return torch.stack(found)


def _beside(inputs: Inputs, pooling: str) -> Inputs:
    """The same with the vectors of another pooling, which one extraction leaves in folders side by side."""
    found = {}
    for split, first in inputs.representations.items():
        folder = first.folder.parent / pooling
        if not folder.exists():
            raise AnalysisError(
                f"{inputs.model}: no vectors of pooling {pooling!r} beside {first.folder}",
                fix=f"extract both at once: represent(..., ({first.folder.name!r}, {pooling!r}))",
            )
        found[split] = Representations.open(folder)
    return replace(inputs, representations=found)


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


def _labels(task: Task, split: str) -> list[str]:
    """The labels of a split, all of them text."""
    labels = task.labels(split)
    for label, sentence in zip(labels, task.corpus[split], strict=True):
        if not isinstance(label, str):
            raise AnalysisError(
                f"task {task.name!r}, {sentence.source or f'sentence {sentence.id}'}: the label {label!r} is no class",
                fix="a sentence probe predicts classes: choose a task with a class per sentence",
            )
    return labels


def _check_classes(task: Task, classes: list[str], labels: dict[str, list[str]]) -> None:
    where = f"task {task.name!r} of corpus {task.corpus.name!r}"
    if len(classes) < 2:
        raise AnalysisError(
            f"{where} has {'only the label ' + repr(classes[0]) if classes else 'no label'} in train",
            fix="a probe needs at least two labels: choose another task or more sentences",
        )
    known = set(classes)
    for split, found in labels.items():
        unseen = [label for label in found if label not in known]
        if unseen:
            raise AnalysisError(
                f"{where}: {len(unseen)} sentences of {split!r} have a label that train lacks, such as {unseen[0]!r}",
                fix="leave these sentences out, or give train examples of every label",
            )


def _order(sentences: tuple[Sentence, ...], labels: Tensor) -> np.ndarray:
    """SentEval's order of training sentences, by length and label; equals by id, so that none plays a role."""

    def place(row: int) -> tuple[int, int, str]:
        sentence = sentences[row]
        return len(sentence.words) + len(sentence.second), int(labels[row]), sentence.id

    return np.array(sorted(range(len(sentences)), key=place))
