"""What moved in the parameters? Weights of a tuned model and of its reference, matrix by matrix."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Annotated, ClassVar

import numpy as np
import torch
from annotated_types import Gt, Le
from torch import Tensor

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.metric import LAYER, WHOLE, Axis, Metric
from vestige.analyses.remarks import count
from vestige.analyses.settings import Count
from vestige.analyses.weight_changes import TENTHS, Change, Measuring
from vestige.errors import AnalysisError
from vestige.models.files.kinds import KINDS, OTHER
from vestige.progress import bar

VOCABULARY = Axis("vocabulary", "tenth of the vocabulary (1 = the first tokens)")
Group = tuple[int | None, str, str]
"""Layer, stack (encoder or decoder, where a model has both) and kind, as far as numbers are of one."""


def _remark(name: str, title: str, sentence: str) -> Metric:
    return Metric(name, title, "count", decimals=0, along=(WHOLE,), role="remark", remark=sentence)


@dataclass(frozen=True)
class Weights(Analysis):
    """What fine-tuning moved in the parameters: how far every matrix, kind and block is from the reference's.

    Numbers describe the two checkpoints; nothing is sampled, so there is nothing to test. Tensors are read from the
    files in pairs, so that no model is loaded; adapters (LoRA) are read as B A. Blocks that share their weights
    (ALBERT) are one block. Poolers and heads, on which no layer depends and with which tuning often begins anew, are
    shown as kinds and are no part of sums and shares.
    """

    name: ClassVar[str] = "weights"
    title: ClassVar[str] = "Weights"
    source: ClassVar[str] = "Shuttleworth et al. 2024, section 3 (intruder dimensions); the rest is ours"
    needs = frozenset({"tensors"})
    levels = ()
    models = 2
    uses_labels = False
    metrics = (
        Metric(
            "relative_change", "relative change of weights", "percent", decimals=2, along=(LAYER, WHOLE),
            about="Norm of the change as a share of the norm of the reference's weights (Frobenius).",
        ),
        Metric(
            "share", "share of the squared change", "percent", decimals=1, along=(LAYER, WHOLE),
            about="Of the sum of all squared changes, what lies in a block or a kind.",
        ),
        Metric(
            "spectral_norm", "spectral norm of the change", decimals=3, role="detail",
            about="Largest singular value of the change of a matrix; of several of one kind in a block, the largest.",
        ),
        Metric(
            "stable_rank", "stable rank of the change", decimals=1,
            along=(LAYER, WHOLE), role="detail",
            about="Squared Frobenius norm over squared spectral norm; of several matrices, the mean.",
        ),
        Metric(
            "intruders", "intruder dimensions", "count", decimals=0, along=(LAYER, WHOLE),
            about="Leading left singular vectors of tuned matrices of attention and MLP that are like none of the "
            "reference's.",
        ),
        Metric(
            "embedding_change", "relative change of word embeddings", "percent", decimals=2, along=(VOCABULARY,),
            about="By the order of the vocabulary, in which many tokenizers put frequent tokens first; no token was "
            "counted.",
        ),
        count("changed_tensors", "tensors that differ", "Of n that both models have; by more than rounding."),
        Metric(
            "rounding", "relative change by rounding alone", "percent", decimals=3, along=(WHOLE,), role="detail",
            about="What storing the reference in the precision of the tuned model would change.",
        ),
        _remark("only_tuned", "weights of the tuned model alone",
                "{value} weight tensors of {model} are not in its reference and are not compared ({subset})"),
        _remark("only_reference", "weights of the reference alone",
                "{value} weight tensors of the reference of {model} are not in it and are not compared ({subset})"),
        _remark("resized", "weights of another number of rows",
                "{value} weight tensors of {model} have another number of rows than its reference's; the first rows, "
                "which both have, are compared ({subset})"),
        _remark("unlike", "weights of another shape",
                "{value} weight tensors of {model} have another shape than its reference's and are not compared "
                "({subset})"),
        _remark("unknown_kind", "weights of no known kind",
                "{value} of {n} weight tensors of {model} are of a kind that no rule knows, and are shown as other "
                "({subset})"),
    )  # fmt: skip

    leading: Count = 10
    """How many leading singular vectors of a tuned matrix may be intruders (the paper's k)."""
    below: Annotated[float, Gt(0), Le(1)] = 0.5
    """One is an intruder if its cosine with every singular vector of the reference is below this (epsilon)."""
    largest: Count = 4096
    """Matrices whose smaller side is longer are not searched for intruders: what few products with a matrix leave
    open is decomposed whole."""

    def run(self, inputs: Inputs) -> Outcome:
        reference = inputs.reference
        if inputs.weights is None or reference is None or reference.weights is None:
            raise AnalysisError(
                f"{self.name} compares the weights of a model with those of its reference",
                fix="name the reference of the model: reference: in a study file",
            )
        measuring = Measuring(reference.weights, inputs.weights, self.leading, self.below, self.largest)
        found, sketches = list[Change](), _Sketches()
        with torch.no_grad(), bar("comparing weights", len(measuring.matched.pairs)) as progress:
            for change, drawn in measuring.changes():
                found.append(change)
                sketches.add(change, drawn)
                progress.advance()
        if not found:
            raise AnalysisError(
                f"no weight of {inputs.model} has the shape of its reference's, for example {measuring.unlike[0]}",
                fix="compare a model with the one that it was tuned from",
            )
        outcome = Outcome()
        _report(outcome, found)
        _remarks(outcome, measuring, found)
        outcome.tables["matrices"] = _matrices(found)
        outcome.tables["sketches"] = sketches.table()
        return outcome


def _report(outcome: Outcome, found: Sequence[Change]) -> None:
    """Rows of the whole model, of kinds, of blocks, and of kinds in blocks."""
    groups: dict[Group, list[Change]] = defaultdict(list)
    for one in found:
        at, stack, kind = one.place.layer, one.place.stack, one.place.kind
        keys: list[Group] = [(None, "", kind)]
        keys += [(None, "", "")] if one.shapes_layers else []
        for key in keys if at is None else [*keys, (at, stack, ""), (at, stack, kind)]:
            groups[key].append(one)
    backbone = [one for one in found if one.shapes_layers]
    total = sum(one.changed for one in backbone)
    for (layer, on, kind), some in sorted(groups.items(), key=lambda item: _order(item[0])):
        where = {"layer": layer, "label": kind or None, "subset": on or None, "n": sum(one.size for one in some)}
        changed, squared = sum(one.changed for one in some), sum(one.squared for one in some)
        if squared:
            outcome.add("relative_change", sqrt(changed / squared), **where)
        if total and some[0].shapes_layers and bool(kind) != (layer is not None):
            outcome.add("share", changed / total, **where)
        if looked := sum(one.looked_at for one in some):
            outcome.add("intruders", sum(one.intruders or 0 for one in some), **{**where, "n": looked})
        matrices = [one for one in some if one.spectral]
        if kind and matrices:
            ranks = [one.stable_rank or 0.0 for one in matrices]
            outcome.add("stable_rank", float(np.mean(ranks)), **{**where, "n": len(ranks)})
            if layer is not None:
                outcome.add("spectral_norm", max(one.spectral or 0.0 for one in matrices), **where)
    _report_embeddings(outcome, found)
    rounded, squared = sum(one.rounded for one in backbone), sum(one.squared for one in backbone)
    outcome.add("changed_tensors", sum(one.differs for one in found), n=len(found))
    outcome.add("rounding", sqrt(rounded / squared) if squared else 0.0)
    _absent(outcome)


def _report_embeddings(outcome: Outcome, found: Sequence[Change]) -> None:
    """Rows of word embeddings by tenth of the vocabulary."""
    words = next((one for one in found if one.tenths is not None), None)
    if words is not None and words.tenths is not None:
        for tenth, (changed, squared) in enumerate(words.tenths.T, start=1):
            if squared:
                n = sum(number * TENTHS // words.rows == tenth - 1 for number in range(words.rows))
                outcome.add("embedding_change", sqrt(changed / squared), axis=VOCABULARY.name, x=tenth, n=n)


def _absent(outcome: Outcome) -> None:
    """Why a metric has no row."""
    there = {row["metric"] for row in outcome.rows}
    reasons = {
        "relative_change": "all weights of the reference are 0",
        "share": "no weight differs",
        "spectral_norm": "no matrix inside a block differs",
        "stable_rank": "no matrix differs",
        "intruders": "no matrix of attention or MLP was found that is small enough",
        "embedding_change": "no word embeddings were found in both models",
    }
    outcome.absent |= {metric: why for metric, why in reasons.items() if metric not in there}


def _order(group: Group) -> tuple[float, str, int]:
    layer, stack, kind = group
    return (-1 if layer is None else layer, stack, KINDS.index(kind) if kind else -1)


def _remarks(outcome: Outcome, measuring: Measuring, found: Sequence[Change]) -> None:
    """What was not compared, or not whole."""
    matched = measuring.matched
    for metric, names in (
        ("only_tuned", matched.only_tuned),
        ("only_reference", matched.only_reference),
        ("resized", [one.name for one in found if one.resized]),
        ("unlike", measuring.unlike),
        ("unknown_kind", [one.name for one in found if one.place.kind == OTHER]),
    ):
        outcome.add(metric, len(names), n=len(found), subset=_examples(names))


def _examples(names: Sequence[str]) -> str | None:
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f"{', '.join(names[:2])}{more}" if names else None


def _matrices(found: Iterable[Change]) -> dict[str, np.ndarray]:
    """Every tensor that was compared, a row each."""
    found = list(found)
    total = sum(one.changed for one in found if one.shapes_layers)
    missing = float("nan")
    shares = [one.changed / total if total and one.shapes_layers else 0.0 for one in found]
    return {
        "name": np.array([one.name for one in found], dtype=object),
        "layer": np.array([missing if one.place.layer is None else one.place.layer for one in found], dtype=float),
        "stack": np.array([one.place.stack for one in found], dtype=object),
        "kind": np.array([one.place.kind for one in found], dtype=object),
        "rows": np.array([one.rows for one in found]),
        "columns": np.array([one.columns for one in found]),
        "norm": np.sqrt([one.squared for one in found]),
        "change": np.sqrt([one.changed for one in found]),
        "share": np.array(shares),
        "spectral_norm": np.array([missing if one.spectral is None else one.spectral for one in found]),
        "stable_rank": np.array([missing if one.stable_rank is None else one.stable_rank for one in found]),
        "intruders": np.array([missing if one.intruders is None else one.intruders for one in found], dtype=float),
    }


class _Sketches:
    """Sketches of changes, added up for the whole model, every block and every kind."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], Tensor] = {}

    def add(self, change: Change, drawn: Tensor) -> None:
        place = change.place
        keys = [("kind", place.kind)] + ([("model", "")] if change.shapes_layers else [])
        keys += [("layer", f"{place.stack} {place.layer}".strip())] if place.layer is not None else []
        for key in keys:
            self._sums[key] = self._sums[key] + drawn if key in self._sums else drawn

    def table(self) -> dict[str, np.ndarray]:
        """A row for every number of every sketch: what it is of (`of`, `part`), its place, its value."""
        size = len(next(iter(self._sums.values())))
        return {
            "of": np.repeat(np.array([of for of, _ in self._sums], dtype=object), size),
            "part": np.repeat(np.array([part for _, part in self._sums], dtype=object), size),
            "place": np.tile(np.arange(size, dtype=np.int32), len(self._sums)),
            "value": torch.stack(list(self._sums.values())).float().numpy().reshape(-1),
        }
