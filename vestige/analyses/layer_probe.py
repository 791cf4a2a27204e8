"""Layer-wise probing: how well can a simple classifier read a property from each layer?

durrani2021 section 4.1 and appendix A.2. The model is frozen; a softmax regression (or a
one-hidden-layer network beside it) is trained on the word vectors of every layer and scored on
the test split, next to a control task, the majority label and the word-type majority.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.metric import WHOLE, Metric
from vestige.analyses.probe_protocols import fit_by_adam, fit_converged, fit_mlp
from vestige.analyses.probe_scores import CONTROL, IS_BASELINE, PROBE_METRICS, Scores, baseline, given_metrics
from vestige.analyses.remarks import remark
from vestige.analyses.rows import labelled_rows
from vestige.analyses.settings import Count, Penalty, Positive
from vestige.corpus.control import baseline_accuracies
from vestige.probes.linear.adam import AdamRecipe
from vestige.probes.linear.mlp import MlpRecipe
from vestige.probes.problem import Scale
from vestige.progress import bar
from vestige.representations.store import lost_words


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
    metrics: ClassVar[tuple[Metric, ...]] = (
        *PROBE_METRICS,
        baseline("word_type_majority", "majority label of the word type"),
        Metric("unseen_type_share", "words of types unseen in train", "percent", along=(WHOLE,), role="detail"),
        remark(
            "unseen_label_words",
            "words with an unseen label",
            "{value} of {n} words of the scored split carry a label that train lacks, and count as wrong",
        ),
    )
    version = 7

    protocol: Literal["converged", "durrani"] = "converged"
    """How the probe is trained: until it has converged, or as in the papers."""
    probe: Literal["linear", "mlp"] = "linear"
    """A softmax regression, or a network with one hidden layer."""
    pooling: Literal["first", "last", "mean", "max"] = "last"
    """How the hidden states of a word's tokens become one vector."""
    seeds: Count = 3
    """Control tasks, and trainings where the probe depends on its seed."""
    control: bool = True
    """Also train probes of a control task (Hewitt & Liang 2019), for selectivity."""
    l1: Penalty = 0.0
    """L1 penalty of the probe."""
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

    @property
    def given(self) -> tuple[Metric, ...]:
        linear, penalised = self.probe == "linear", self.l1 > 0 or self.l2 != 0
        return given_metrics(
            self.metrics, linear=linear, protocol=self.protocol, control=self.control, penalised=penalised
        )

    def run(self, inputs: Inputs) -> Outcome:
        rows, outcome = labelled_rows(inputs, self.split, self.scale), Outcome()
        gold = rows.labels[self.split]
        for metric, value in baseline_accuracies(inputs.task, self.split).items():
            outcome.add(metric, value, n=len(gold))
        outcome.add("unseen_label_words", int((gold < 0).sum()), n=len(gold))
        for lost in lost_words(inputs.representations.values()):
            outcome.add(**lost)
        controls = rows.control_labels(self.seeds) if self.control and not inputs.baseline else None
        if self.control and inputs.baseline:
            outcome.absent |= dict.fromkeys(CONTROL[:2], IS_BASELINE)
        scores = Scores(outcome, rows, self.split, controls)
        scores.outliers()
        with bar(f"{self.name} {inputs.task.name} of {inputs.model}", rows.layers) as shown:
            for group in rows.representations["train"].width_groups:
                if self.probe == "mlp":
                    fit_mlp(scores, group, self.seeds, MlpRecipe(hidden=self.hidden), raw=self.protocol == "durrani")
                elif self.protocol == "durrani":
                    fit_by_adam(scores, group, self.seeds, AdamRecipe(l1=self.l1, l2=self.l2 or 0.0))
                else:
                    for layer in group:
                        fit_converged(scores, layer, l1=self.l1, l2=self.l2, tolerance=self.tolerance)
                        shown.advance()
                    continue
                shown.advance(len(group))
        outcome.items = scores.items()
        return outcome
