"""Layer-wise probing: how well can a simple classifier read a property from each layer?

durrani2021 section 4.1 and appendix A.2. The model is frozen; a softmax regression (or a
one-hidden-layer network beside it) is trained on the word vectors of every layer and scored on
the test split, next to a control task, the majority label and the word-type majority.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import torch
from torch import Tensor

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.probe_scores import Data, Frame, Scores
from vestige.analyses.rows import WordRows
from vestige.analyses.settings import Count, Penalty, Positive
from vestige.corpus.control import baseline_accuracies
from vestige.probes.linear.adam import AdamRecipe, solve_by_adam
from vestige.probes.linear.mlp import MlpRecipe, solve_mlp
from vestige.probes.linear.quasi_newton import principal_axes, solve
from vestige.probes.problem import Fit, Scale, log_probabilities
from vestige.progress import bar
from vestige.representations.store import lost_words

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
    gets no verdict. `outlier_units` counts the huge units of a layer (vestige.probes.problem.OUTLIER).
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

    def _control_labels(self, inputs: Inputs, data: Data) -> dict[str, Tensor] | None:
        """Per split (seeds, rows): labels of the control tasks; None where none is wanted."""
        return data.rows.control_labels(self.seeds) if self.control and not inputs.baseline else None

    def fit_group(
        self, group: range, data: Data, controls: dict | None, scores: Scores, tick: Callable[..., None]
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

    def _fit_converged(self, layer: int, data: Data, controls: dict | None, scores: Scores) -> None:
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
        self, layer: int, data: Data, fit: Callable[[float, Tensor | None], Fit]
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

    def _fit_by_adam(self, group: range, data: Data, controls: dict | None, scores: Scores) -> None:
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

    def _fit_mlp(self, group: range, data: Data, controls: dict | None, scores: Scores) -> None:
        recipe, seeds = MlpRecipe(hidden=self.hidden), list(range(self.seeds))

        def fit(labels: Tensor, dev_labels: Tensor, frame: Frame, watched: bool = False) -> Tensor:
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
