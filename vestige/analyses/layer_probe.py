"""Layer-wise probing: how well can a simple classifier read a property from each layer?

durrani2021 section 4.1 and appendix A.2. The model is frozen; a softmax regression (or a
one-hidden-layer network beside it) is trained on the word vectors of every layer and scored on
the test split, next to a control task, the majority label and the word-type majority.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.failed_probe import failure
from vestige.analyses.rows import WordRows
from vestige.analyses.settings import Count, Penalty, Positive
from vestige.corpus.control import baseline_accuracies
from vestige.corpus.types import Task
from vestige.progress import bar
from vestige.representations.store import Representations, lost_words
from vestige.solvers.adam import AdamRecipe, solve_by_adam
from vestige.solvers.axes import on_principal_axes
from vestige.solvers.mlp import MlpRecipe, solve_mlp
from vestige.solvers.problem import (
    Features,
    Fit,
    Scale,
    log_probabilities,
    outlier_units,
    standard,
    unit_sizes,
)
from vestige.solvers.quasi_newton import principal_axes, solve

L2_PATH = (200.0, 20.0, 2.0)
"""Ridge strengths tried on dev, divided by the number of training words (a prior of fixed strength),
from strong to weak, each starting from the last one's weights."""

PATH_GAIN = 0.001
"""A weaker ridge must gain this much accuracy on dev to be preferred (a tenth of a point)."""

PATH_SLACK = 5.0
"""How much coarser than the final fit the fits on the way are solved."""


@dataclass(frozen=True)
class LayerProbe(Analysis):
    """A probe per layer, all seeds together.

    Protocols. `converged`: trained until its distance from the optimum is certified to be at most
    `tolerance`; the rows of a layer are centred and scaled (`scale`), and the ridge is chosen on dev. Such
    a linear probe has one answer, so seeds vary the control task only. `durrani`: the papers'
    setting (Adam 1e-3, batches of 512 shuffled, 10 epochs, no scaling, no penalty unless given). Ten epochs are
    far from the optimum, so its accuracy depends on the scale and the axes of a layer. The same probe is therefore
    trained on standardised vectors too, and a comparison claims only what both show.

    A probe that failed, though more can be read from its vectors, is called so (vestige.analyses.failed_probe) and
    gets no verdict. `outlier_units` counts the huge units of a layer (vestige.solvers.problem.OUTLIER).
    """

    name: ClassVar[str] = "layer_probe"
    title: ClassVar[str] = "Layer-wise probe"
    source: ClassVar[str] = "durrani2021, section 4.1; control tasks after Hewitt & Liang 2019"
    needs = frozenset({"hidden_states"})
    levels = ("token",)
    version = 4

    protocol: Literal["converged", "durrani"] = "converged"
    probe: Literal["linear", "mlp"] = "linear"
    pooling: Literal["first", "last", "mean", "max"] = "last"
    seeds: Count = 3
    control: bool = True
    l1: Penalty = 0.0
    l2: Penalty | None = None
    """None: chosen on dev (converged), 0 (durrani)."""
    tolerance: Positive = 1e-2
    """Largest certified distance from the optimum, in nats per word (converged, linear)."""
    scale: Scale = "layer"
    """layer: one number for all units of a layer, with outlier units shrunk; unit: every unit to unit size."""
    hidden: Count = 64
    """Hidden units of the mlp."""
    split: str = "test"
    """The split that is scored."""

    @property
    def stochastic(self) -> bool:
        return self.protocol == "durrani" or self.probe == "mlp"

    def run(self, inputs: Inputs) -> Outcome:
        data = Data.of(WordRows.of(inputs, self.split), inputs.model, self.scale)
        outcome = Outcome()
        for metric, value in baseline_accuracies(inputs.task, self.split).items():
            outcome.add(metric, value, n=len(data.words[self.split]))
        outcome.add("unseen_label_words", int((data.labels[self.split] < 0).sum()), n=len(data.words[self.split]))
        for lost in lost_words(inputs.representations.values()):
            outcome.add(**lost)
        controls = self._control_labels(inputs, data)
        scores = Scores(outcome, data, self.split)
        scores.outliers()
        with bar(f"{self.name} {inputs.task.name} of {inputs.model}", data.layers) as shown:
            for group in data.representations["train"].width_groups:
                self.fit_group(group, data, controls, scores, shown.advance)
        outcome.items = scores.items(inputs.task)
        return outcome

    def _control_labels(self, inputs: Inputs, data: "Data") -> dict[str, Tensor] | None:
        """Per split (seeds, rows): labels of the control tasks; None where none is wanted."""
        return data.rows.control_labels(self.seeds) if self.control and not inputs.baseline else None

    def fit_group(
        self, group: range, data: "Data", controls: dict | None, scores: "Scores", tick: Callable[..., None]
    ) -> None:
        """Train and score the layers of `group`, which have one width."""
        if self.probe == "mlp":
            self._fit_mlp(group, data, controls, scores)
            tick(len(group))
        elif self.protocol == "durrani":
            self._fit_by_adam(group, data, controls, scores)
            tick(len(group))
        else:
            for layer in group:
                self._fit_converged(layer, data, controls, scores)
                tick()

    def _fit_converged(self, layer: int, data: "Data", controls: dict | None, scores: "Scores") -> None:
        train, held = data.features("train", layer).resident(), data.features(self.split, layer)
        axes = principal_axes(train)
        labels = data.labels["train"].unsqueeze(0)
        classes = len(data.classes)

        def fit(labels: Tensor, ridge: float, start: Tensor | None, slack: float = 1.0) -> Fit:
            same = [self.l1] * len(labels), [ridge] * len(labels)
            return solve(train, labels, classes, *same, tolerance=slack * self.tolerance, start=start, axes=axes)

        ridge, start = self.l2, None
        if ridge is None:
            ridge, start = self._choose_ridge(layer, data, partial(fit, labels, slack=PATH_SLACK))
        best = fit(labels, ridge, start)
        scores.fitted(layer, best, ridge)
        scores.task(layer, log_probabilities(best, held))
        scores.trained(layer, log_probabilities(best, train), log_probabilities(best, data.features("dev", layer)))
        if controls is not None:
            # Control tasks are as many probes again: the ridge is the task's, the rows are shared.
            fitted = fit(controls["train"], ridge, None)
            scores.control(layer, log_probabilities(fitted, held), controls[self.split])

    def _choose_ridge(
        self, layer: int, data: "Data", fit: Callable[[float, Tensor | None], Fit]
    ) -> tuple[float, Tensor | None]:
        """Walk from strong to weak ridge while accuracy on dev gains; the best ridge and its weights."""
        dev, gold = data.features("dev", layer), data.labels["dev"]
        path = [strength / len(data.labels["train"]) for strength in L2_PATH]
        best_accuracy, best_ridge = -1.0, path[0]
        best: Tensor | None = None
        for ridge in path:
            weights = (found := fit(ridge, best)).weights
            accuracy = float((log_probabilities(found, dev)[0].argmax(-1) == gold).float().mean())
            if accuracy < best_accuracy + PATH_GAIN:
                break
            best_accuracy, best_ridge, best = accuracy, ridge, weights
        return best_ridge, best

    def _fit_by_adam(self, group: range, data: "Data", controls: dict | None, scores: "Scores") -> None:
        recipe = AdamRecipe(l1=self.l1, l2=self.l2 or 0.0)
        seeds = list(range(self.seeds))
        labels = same = data.labels["train"].expand(self.seeds, -1)
        if controls is not None:
            labels = torch.cat([labels, controls["train"]])
        repeated = seeds * (len(labels) // self.seeds)
        fits = solve_by_adam(data.layer_features("train", group, "raw"), labels, len(data.classes), recipe, repeated)
        held = data.layer_features(self.split, group, "raw")
        for layer, fit, features in zip(group, fits, held, strict=True):
            log_p = log_probabilities(fit, features)
            scores.fitted(layer, replace(fit, gap=fit.gap[:1], objective=fit.objective[:1]), recipe.l2)
            scores.task(layer, log_p[: self.seeds])
            seen = [log_probabilities(fit, data.features(split, layer, "raw")) for split in ("train", "dev")]
            scores.trained(layer, seen[0][: self.seeds], seen[1][: self.seeds], converged=False)
            if controls is not None:
                scores.control(layer, log_p[self.seeds :], controls[self.split])
        fits = solve_by_adam(data.layer_features("train", group, "principal"), same, len(data.classes), recipe, seeds)
        held = data.layer_features(self.split, group, "principal")
        for layer, fit, features in zip(group, fits, held, strict=True):
            scores.standardised(layer, log_probabilities(fit, features))

    def _fit_mlp(self, group: range, data: "Data", controls: dict | None, scores: "Scores") -> None:
        recipe, seeds = MlpRecipe(hidden=self.hidden), list(range(self.seeds))

        def fit(labels: Tensor, dev_labels: Tensor, frame: "Frame", watched: bool = False) -> Tensor:
            train, dev, held = (data.layer_features(split, group, frame) for split in ("train", "dev", self.split))
            train = train if frame == "raw" else [features.resident() for features in train]
            found = solve_mlp(train, labels, dev, dev_labels, len(data.classes), recipe, seeds)
            if watched:
                seen = zip(*map(found.log_probabilities, (train, dev)), strict=True)
                for layer, (on_train, on_dev) in zip(group, seen, strict=True):
                    scores.trained(layer, on_train, on_dev, converged=False)
            return found.log_probabilities(held)

        labels, dev_labels = (data.labels[split].expand(self.seeds, -1) for split in ("train", "dev"))
        raw = self.protocol == "durrani"
        standardised = fit(labels, dev_labels, "principal", watched=not raw)
        found = fit(labels, dev_labels, "raw", watched=True) if raw else standardised
        for layer, log_p in zip(group, found, strict=True):
            scores.task(layer, log_p)
        if controls is not None:
            found = fit(controls["train"], controls["dev"], "raw" if raw else "principal")
            for layer, log_p in zip(group, found, strict=True):
                scores.control(layer, log_p, controls[self.split])
        if raw:
            for layer, log_p in zip(group, standardised, strict=True):
                scores.standardised(layer, log_p)


Frame = Literal["raw", "standard", "principal"]
"""How probes read the rows of a layer: as they are; around their mean at unit scale; that, on their principal axes."""


@dataclass(frozen=True)
class Data:
    """Rows of every split, and how those of every layer are centred and scaled."""

    rows: WordRows
    frames: list[Features]
    """Of train, a layer each."""

    @classmethod
    def of(cls, rows: WordRows, model: str, by: Scale = "layer") -> "Data":
        train = rows.representations["train"]
        return cls(rows, [standard(train.layer(at), f"{model}, layer {at}", by) for at in range(train.layers)])

    @property
    def representations(self) -> dict[str, Representations]:
        return self.rows.representations

    @property
    def words(self) -> dict[str, list[str]]:
        return self.rows.words

    @property
    def labels(self) -> dict[str, Tensor]:
        return self.rows.labels

    @property
    def classes(self) -> list[str]:
        return self.rows.classes

    @property
    def layers(self) -> int:
        return self.representations["train"].layers

    def features(self, split: str, layer: int, frame: Frame = "standard") -> Features:
        """Rows around the mean of train and at unit root mean square, unless asked for otherwise."""
        rows = self.representations[split].layer(layer)
        if frame == "raw":
            return Features(rows)
        return (self.frames[layer] if frame == "standard" else self._principal[layer]).like(rows)

    def layer_features(self, split: str, layers: range, frame: Frame) -> list[Features]:
        return [self.features(split, layer, frame) for layer in layers]

    @cached_property
    def _principal(self) -> list[Features]:
        return [on_principal_axes(frame) for frame in self.frames]


class Scores:
    """Turns log-probabilities into rows and items."""

    def __init__(self, outcome: Outcome, data: Data, split: str) -> None:
        self.outcome, self.data, self.split = outcome, data, split
        self.gold = data.labels[split]
        self.accuracy: dict[tuple[int, int], float] = {}
        self.parts: list[dict[str, np.ndarray]] = []

    def fitted(self, layer: int, fit: Fit, ridge: float) -> None:
        for metric, value in (("objective", fit.objective[0]), ("optimality_gap", fit.gap[0])):
            if torch.isfinite(value):
                self.outcome.add(metric, float(value), layer=layer)
        self.outcome.add("l2", ridge, layer=layer)
        self.outcome.add("passes", fit.passes, layer=layer)

    def task(self, layer: int, log_p: Tensor) -> None:
        """log_p (seeds, rows, classes)."""
        for seed, mine in enumerate(log_p):
            predicted = mine.argmax(-1)
            accuracy = float((predicted == self.gold).double().mean())
            self.accuracy[layer, seed] = accuracy
            self.outcome.add("accuracy", accuracy, layer=layer, probe_seed=seed, n=len(self.gold))
            self._per_label(layer, seed, predicted)
            self._keep("task", layer, seed, mine, self.gold)

    def outliers(self) -> None:
        """How many units of every layer are outliers, of which there are any."""
        for layer, frame in enumerate(self.data.frames):
            if found := int(outlier_units(unit_sizes(replace(frame, scale=1.0))).sum()):
                self.outcome.add("outlier_units", found, layer=layer, n=frame.width)

    def trained(self, layer: int, train: Tensor, dev: Tensor, converged: bool = True) -> None:
        """What was learnt, and whether the probe failed; log-probabilities (seeds, rows, classes) of both splits."""
        data = self.data
        learnt, read = (
            (log_p.argmax(-1) == data.labels[split]).double().mean(-1)
            for split, log_p in (("train", train), ("dev", dev))
        )
        for seed, accuracy in enumerate(learnt.tolist()):
            self.outcome.add("train_accuracy", accuracy, layer=layer, probe_seed=seed, n=train.shape[1])
        frames = data.features("train", layer), data.features("dev", layer)
        more = failure(data.rows, frames, (float(learnt.mean()), float(read.mean())), converged)
        if more is not None:
            self.outcome.add("failed_probe", more, layer=layer, n=dev.shape[1])

    def standardised(self, layer: int, log_p: Tensor) -> None:
        """The task again, from standardised vectors; log_p (seeds, rows, classes)."""
        for seed, mine in enumerate(log_p):
            accuracy = float((mine.argmax(-1) == self.gold).double().mean())
            self.outcome.add("accuracy_standardised", accuracy, layer=layer, probe_seed=seed, n=len(self.gold))
            self._keep("standardised", layer, seed, mine, self.gold)

    def control(self, layer: int, log_p: Tensor, gold: Tensor) -> None:
        """log_p (seeds, rows, classes), gold (seeds, rows)."""
        for seed, (mine, labels) in enumerate(zip(log_p, gold, strict=True)):
            accuracy = float((mine.argmax(-1) == labels).double().mean())
            task = self.accuracy.get((layer, seed), self.accuracy[layer, 0])
            where = {"layer": layer, "probe_seed": seed, "n": len(labels)}
            self.outcome.add("control_accuracy", accuracy, **where)
            self.outcome.add("selectivity", task - accuracy, **where)
            self._keep("control", layer, seed, mine, labels)

    def _per_label(self, layer: int, seed: int, predicted: Tensor) -> None:
        classes = len(self.data.classes)
        known = self.gold >= 0
        gold_count = torch.bincount(self.gold[known], minlength=classes).double()
        predicted_count = torch.bincount(predicted, minlength=classes).double()
        hit = torch.bincount(self.gold[self.gold == predicted], minlength=classes).double()
        for index, label in enumerate(self.data.classes):
            if gold_count[index] == 0:
                continue
            where = {"layer": layer, "probe_seed": seed, "label": label, "n": int(gold_count[index])}
            self.outcome.add("recall", hit[index] / gold_count[index], **where)
            self.outcome.add("precision", hit[index] / predicted_count[index].clamp(min=1), **where)
            self.outcome.add("f1", 2 * hit[index] / (gold_count[index] + predicted_count[index]), **where)

    def _keep(self, subset: str, layer: int, seed: int, log_p: Tensor, gold: Tensor) -> None:
        predicted = log_p.argmax(-1)
        of_gold = log_p.gather(-1, gold.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        rows = len(gold)
        self.parts.append(
            {
                "subset": np.full(rows, subset),
                "layer": np.full(rows, layer, dtype=np.int16),
                "probe_seed": np.full(rows, seed, dtype=np.int16),
                "row": np.arange(rows, dtype=np.int32),
                "gold": gold.numpy().astype(np.int32),
                "predicted": predicted.numpy().astype(np.int32),
                "correct": (predicted == gold).numpy(),
                "log_probability": torch.where(gold < 0, float("nan"), of_gold).numpy(),
            }
        )

    def items(self, task: Task) -> dict[str, np.ndarray]:
        """The scored words with their sentence ids; labels by name."""
        columns = {name: np.concatenate([part[name] for part in self.parts]) for name in self.parts[0]}
        row = columns.pop("row")
        sentences, words = self.data.rows.places(task, self.split)
        names = np.array([*self.data.classes, "(not in train)"], dtype=object)
        columns["gold"], columns["predicted"] = names[columns["gold"]], names[columns["predicted"]]
        return {"sentence": sentences[row], "word": words[row], **columns}
