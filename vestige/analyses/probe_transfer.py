"""Probe transfer: is what a probe no longer reads lost, moved or re-encoded?

A probe of the base, put on the tuned model, reads less. That has three reasons, which the accuracies of four readings
of the same test words tell apart, layer by layer:

    A_b   the base's probe on the base
    A_0   the base's probe on the tuned model as it is
    A_1   the base's probe on the tuned model's hidden states, rotated, shifted and scaled onto the base's
    A_2   the tuned model's own probe

    A_b - A_0 = (A_b - A_2) lost + (A_2 - A_1) re-encoded + (A_1 - A_0) moved

*Lost*: the tuned model's own probe does not read it. *Re-encoded*: its own probe reads it, but no rotation brings it
to where the base's probe looks. *Moved*: one does. The same with any affine map in place of the rotation (A_1'), which
calls more of it moved. The names and the split are ours; the map is orthogonal Procrustes (Schoenemann 1966) with a
translation and one scale, fitted on training words.

A part may be below 0. The base's probe after an affine map is itself a linear probe of the tuned model, so where it
reads more than the tuned model's own (A_2 < A_1'), some of what is lost is only out of reach: written along directions
so small that the ridge of the own probe forbids the weights. Accuracies hold guesses: a probe of its own guesses the
most frequent label where it reads nothing, the base's probe guesses worse, and that counts as re-encoded.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.failed_probe import FAILED_PROBE
from vestige.analyses.metric import Metric
from vestige.analyses.probe_scores import GAP, MAJORITY
from vestige.analyses.remarks import LOST, remark
from vestige.analyses.settings import Positive
from vestige.analyses.transfer_scores import Transfer
from vestige.comparison.estimators import Within
from vestige.corpus.control import baseline_accuracies
from vestige.errors import AnalysisError
from vestige.probes.problem import Scale
from vestige.probes.rows import LabelledRows
from vestige.progress import bar
from vestige.representations.shared import in_common
from vestige.representations.store import lost_words

MARGIN = 0.005
"""Half a point, as of layer probes; also what a layer must lose on dev to be looked for in other layers."""
_SAME_WIDTH = (("same_width", True),)
ACROSS = ("across_accuracy", "elsewhere", "elsewhere_layer", "elsewhere_in_base")


def _part(name: str, title: str, before: str, after: str, sides: tuple[str, str], about: str) -> Metric:
    where = () if {before, after} <= {"base", "own", "affine"} else _SAME_WIDTH
    compared = Within(where=where, before=before, after=after)
    return Metric(name, title, "percent", margin=MARGIN, decimals=1, compared=compared, sides=sides, about=about)


def _level(name: str, title: str) -> Metric:
    return Metric(name, title, "percent", "higher", decimals=1, role="detail")


_AS_IS, _ROTATED, _AFFINE = "as it is", "after the Procrustes map", "after the affine map"
_BASE, _OWN = "base's probe on the base", "tuned model's own probe"
PARTS = (
    _part(
        "drop", "drop of the base's probe", "as_is", "base", (_AS_IS, _BASE),
        "What the base's probe reads less from the tuned model as it is than from the base.",
    ),
    _part(
        "lost", "accuracy lost", "own", "base", (_OWN, _BASE),
        "The tuned model's own probe does not read it; below 0 that reads more than the base's probe did in the base.",
    ),
    _part(
        "re_encoded", "accuracy re-encoded", "rotated", "own", (_ROTATED, _OWN),
        "The tuned model's own probe reads it, and the base's does not after a rotation, shift and scale; below 0 the "
        "base's probe reads the rotated hidden states better than the tuned model's own probe.",
    ),
    _part(
        "moved", "accuracy moved", "as_is", "rotated", (_AS_IS, _ROTATED),
        "The base's probe reads it after a rotation, shift and scale; below 0 that map does harm.",
    ),
    _part(
        "re_encoded_affine", "accuracy re-encoded beyond any affine map", "affine", "own", (_AFFINE, _OWN),
        "The same with any affine map in place of the rotation.",
    ),
    _part(
        "moved_affine", "accuracy moved by an affine map", "as_is", "affine", (_AS_IS, _AFFINE),
        "The same with any affine map in place of the rotation.",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class ProbeTransfer(Analysis):
    """Of what the base's probe reads less from the tuned model: what is lost, what re-encoded, what only moved.

    Points of accuracy, layer by layer; the three parts add up to the drop. Probes are those of the layer-wise probe
    under `converged`, both with one ridge. The base's probe reads everything in the frame of the base (its mean and its
    scale), so that a layer that was only rescaled counts as moved.
    """

    name: ClassVar[str] = "probe_transfer"
    title: ClassVar[str] = "Lost, moved or re-encoded"
    source: ClassVar[str] = "orthogonal Procrustes, Schoenemann 1966; the split of the drop is our own"
    needs = frozenset({"hidden_states"})
    levels = ("token",)
    version = 3
    models = 2
    metrics = (
        *PARTS,
        _level("base_accuracy", _BASE),
        _level("as_is_accuracy", "base's probe on the tuned model as it is"),
        _level("rotated_accuracy", "base's probe after the Procrustes map"),
        _level("affine_accuracy", "base's probe after the affine map"),
        _level("own_accuracy", _OWN),
        Metric("scale", "scale of the Procrustes map", "ratio", role="detail"),
        _level("across_accuracy", "base's probe on another layer"),
        Metric(
            "elsewhere", "accuracy found in another layer", "percent", margin=MARGIN, decimals=1, role="detail",
            compared=Within(table="elsewhere", before="own", after="elsewhere"), sides=(_OWN, "from the other layer"),
            about="Of layers that lost: what the base's probe reads, after an affine map, from the other layer of the "
            "tuned model that is best on dev, beyond what the tuned model's own probe reads from the layer itself.",
        ),
        Metric("elsewhere_layer", "the other layer", "count", decimals=0, role="detail"),
        _level("elsewhere_in_base", "base's probe on that layer of the base"),
        Metric("l2", "ridge of both probes", decimals=6, role="detail"),
        GAP,
        FAILED_PROBE,
        MAJORITY,
        remark(
            "left_out_layers", "layers left out",
            "{value} of {n} layers have no layer of that number in the other model and are left out",
        ),
        remark(
            "other_widths", "layers of another width",
            "{value} of {n} layers of {model} are not as wide as the base's: nothing can be read there as it is or "
            "rotated, and what is not lost is split by the affine map alone",
        ),
        remark(
            "few_words", "few words for the maps",
            "the maps onto the base are fitted on {n} words, fewer than a layer is wide: they may do worse on other "
            "words, which then looks re-encoded",
        ),
        remark(
            "unmatched_words", "unmatched words",
            "{value} of {n} words are in one of the two models only and are left out",
        ),
        remark(
            "unseen_label_words", "words with an unseen label",
            "{value} of {n} words of the scored split carry a label that train lacks, and count as wrong",
        ),
        *LOST,
    )  # fmt: skip

    pooling: Literal["first", "last", "mean", "max"] = "last"
    """How the hidden states of a word's tokens become one vector."""
    l2: Positive | None = None
    """Ridge of both probes; None: chosen on dev, one for both."""
    tolerance: Positive = 1e-2
    """Largest certified distance of a probe from the optimum, in nats per word."""
    scale: Scale = "layer"
    """layer: one number for all units of a layer, with outlier units shrunk; unit: every unit to unit size."""
    across: Literal["none", "lost", "all"] = "lost"
    """Probes of which layers of the base also read all other layers of the tuned model: none; those of layers that
    lost accuracy on dev; all (a map for every pair of layers)."""
    split: str = "test"
    """The split that is scored."""

    @property
    def given(self) -> tuple[Metric, ...]:
        unasked = ACROSS if self.across == "none" else ()
        return tuple(one for one in self.metrics if one.name not in unasked)

    def run(self, inputs: Inputs) -> Outcome:
        outcome = Outcome()
        base, tuned = self._rows(inputs, outcome)
        transfer = Transfer(base, tuned, self.split, outcome, tolerance=self.tolerance, l2=self.l2)
        transfer.remarks()
        with bar(f"{self.name} {inputs.task.name} of {inputs.model}", transfer.depth) as shown:
            for layer in range(transfer.depth):
                transfer.read(layer)
                shown.advance()
        outcome.items = transfer.items()
        if self.across != "none":
            self._across(transfer, outcome)
        return outcome

    def _across(self, transfer: Transfer, outcome: Outcome) -> None:
        """Other layers of the tuned model, read by probes of the base's layers that lost something on dev."""
        losing = [layer for layer, loss in transfer.dev_loss.items() if loss > MARGIN or self.across == "all"]
        with bar(f"{self.name} across layers", len(losing)) as shown:
            for layer in losing:
                transfer.read_across(layer)
                shown.advance()
        if table := transfer.elsewhere_table():
            outcome.tables["elsewhere"] = table
        else:
            why = "no layer lost accuracy on dev that could be looked for in another"
            outcome.absent |= dict.fromkeys(ACROSS, why)

    def _rows(self, inputs: Inputs, outcome: Outcome) -> tuple[LabelledRows, LabelledRows]:
        """The same words of both models, with what was left out."""
        if inputs.reference is None:
            raise AnalysisError(
                f"probe_transfer reads {inputs.model!r} by probes of its reference, and none was given",
                fix="name the reference of the model",
            )
        names, found, apart, words = (inputs.reference.model, inputs.model), {}, 0, 0
        for split in dict.fromkeys(("train", "dev", self.split)):
            whole = inputs.reference.split(split), inputs.split(split)
            found[split] = in_common(*whole, names, split)
            apart += sum(len(one) - len(found[split][0]) for one in whole)
            words += sum(len(one) for one in whole)
        outcome.add("unmatched_words", apart, n=words)
        for lost in lost_words(inputs.representations.values()):
            outcome.add(**lost)
        outcome.add("majority", baseline_accuracies(inputs.task, self.split)["majority"])
        base, tuned = (
            LabelledRows.of(inputs.task, {split: both[side] for split, both in found.items()}, name, self.scale)
            for side, name in enumerate(names)
        )
        return base, tuned
