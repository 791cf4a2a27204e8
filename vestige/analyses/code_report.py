"""What codes report: their metrics, rows, and the table `codes` of what every sentence takes."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from vestige.analyses.base import Outcome
from vestige.analyses.edge_probe import INPUTS
from vestige.analyses.metric import WHOLE, Axis, Metric, Unit
from vestige.analyses.remarks import LOST, TARGETS, remark
from vestige.comparison.estimators import Ratio
from vestige.probes.codes.online import Blocks, Compat, OnlineCode
from vestige.probes.edges.model import LAST_MIXED
from vestige.probes.rows import Place, place_columns

CONTROL = "control_"
"""With what the metrics of the control task begin."""
SENT = Axis("labels_sent", "labels sent")
_SAVED = Ratio(table="codes", numerator="saved_bits", denominator="uniform_bits", count="labels")


def _bits(name: str, title: str, along: tuple[Axis, ...] = INPUTS) -> Metric:
    return Metric(name, title, "bits", "lower", decimals=0, along=along, role="detail")


def _remark(name: str, title: str, unit: Unit, sentence: str, above: float = 0.0) -> Metric:
    return Metric(name, title, unit, decimals=0, along=INPUTS, role="remark", remark=sentence, above=above)


_OF_ALL = (
    Metric("bits_per_label", "bits per label", "bits", "lower", along=INPUTS),
    Metric(
        "compression", "compression", "ratio", "higher", decimals=2, along=INPUTS, about="Against the uniform code."
    ),
    Metric("saved", "share saved of the uniform code", "percent", "higher", 0.005, 1, INPUTS, compared=_SAVED),
    _bits("codelength", "code length"),
    Metric("accuracy", "accuracy of the last probe", "percent", "higher", decimals=1, along=INPUTS, role="detail"),
)
_OF_CODE = {
    "online": (
        _bits("block_bits", "bits of a block", (SENT, replace(SENT, second=LAST_MIXED))),
        _remark(
            "untrained_blocks",
            "untrained blocks",
            "count",
            "up to {value} of {n} blocks were sent by the uniform code, as the labels before them are all alike",
        ),
    ),
    "variational": (
        _bits("probe_bits", "bits of the probe"),
        _bits("data_bits", "bits of the labels"),
        _remark(
            "still_falling",
            "share by which the code still fell",
            "percent",
            "variational codes still got shorter by up to {value} % in the last tenth of training; raise least_steps "
            "before comparing them",
            above=0.02,
        ),
    ),
}
_UNIFORM = _bits("uniform_codelength", "length of the uniform code", (WHOLE,))
_DROPPED = remark(
    "dropped_fractions",
    "blocks with too few labels",
    "{value} of {n} blocks have too few labels to train a probe on and are sent with the next",
)


def code_metrics(code: str, control: bool) -> tuple[Metric, ...]:
    """Of one of the codes; the table `codes`, by which models are compared, is left by the online code alone."""
    online = code == "online"
    saved = [metric if online else replace(metric, compared=None) for metric in _OF_ALL]
    task = (*saved, *_OF_CODE[code])
    controls = tuple(map(_of_control, task)) if control else ()
    return (*task, *controls, _UNIFORM, *([_DROPPED] if online else []), *LOST, *TARGETS)


def _of_control(metric: Metric) -> Metric:
    return replace(
        metric,
        name=CONTROL + metric.name,
        title=f"{metric.title} of the control task",
        compared=None,
        role="result" if metric.name == "bits_per_label" else "detail",
        remark="",
    )


Codes = list[tuple[Place, dict[str, np.ndarray]]]
"""Of every code that was sent, where it lies and its part of the table `codes`."""


@dataclass(frozen=True)
class CodeReport:
    """Turns codes into rows; those of the control task are called control_..."""

    outcome: Outcome
    codes: Codes
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

    def online(self, name: str, place: Place, code: OnlineCode, probe: int) -> None:
        bits = code.block_bits(self.compat)[probe]
        ends = [end * self.each for end in code.blocks.ends]
        self._length(name, place, bits.sum(), code.uniform_bits, ends[-1])
        for end, size, mine in zip(ends, np.diff([0, *ends]).tolist(), bits, strict=True):
            mixed = {"axis2": place.axis, "x2": place.x} if place.axis else {}
            where: dict[str, Any] = {**place.where, **mixed, "probe_seed": self.seed, "axis": SENT.name, "x": end}
            self.outcome.add(f"{name}block_bits", mine, n=size, **where)
        if not name:
            self._sentences(place, code, probe)
        untrained = int(code.untrained[probe].sum())
        self.outcome.add(f"{name}untrained_blocks", untrained, **place.where, probe_seed=self.seed, n=len(ends))

    def _sentences(self, place: Place, code: OnlineCode, probe: int) -> None:
        """What every sentence takes, and what it takes by the uniform code."""
        starts, count = np.cumsum(self.sizes) - self.sizes, len(self.sizes)
        uniform = self.sizes * code.uniform
        bits = np.add.reduceat(code.label_bits(self.compat)[probe], starts)
        columns = {
            "sentence": self.sentences,
            "probe_seed": np.full(count, self.seed, dtype=np.int16),
            "stochastic": np.full(count, self.stochastic),
            "labels": (self.sizes * self.each).astype(np.int32),
            "uniform_bits": uniform,
            "bits": bits,
            "saved_bits": uniform - bits,
        }
        self.codes.append((place, columns))

    def variational(self, name: str, place: Place, code: tuple[float, float, float], labels: int, bits: float) -> None:
        """code: nats of the probe and of the labels, and how much it still fell; bits: of a label, uniformly coded."""
        factor = 1.0 if self.compat == "voita2020" else 1 / np.log(2)
        kl, data, falling = code
        self._length(name, place, (kl + data) * factor, labels * bits, labels)
        where: dict[str, Any] = {**place.where, "probe_seed": self.seed, "n": labels}
        for metric, value in (("probe_bits", kl * factor), ("data_bits", data * factor), ("still_falling", falling)):
            self.outcome.add(f"{name}{metric}", value, **where)

    def _length(self, name: str, place: Place, bits: float, uniform: float, labels: int) -> None:
        where: dict[str, Any] = {**place.where, "probe_seed": self.seed, "n": labels}
        self.outcome.add(f"{name}codelength", bits, **where)
        self.outcome.add(f"{name}compression", uniform / bits, **where)
        self.outcome.add(f"{name}bits_per_label", bits / labels, **where)
        self.outcome.add(f"{name}saved", 1 - bits / uniform, **where)

    def accuracy(self, name: str, place: Place, right: Tensor) -> None:
        value = float(right.double().mean())
        self.outcome.add(f"{name}accuracy", value, **place.where, probe_seed=self.seed, n=len(right))


def codes_table(codes: Codes) -> dict[str, np.ndarray]:
    """A row per code that was sent, and sentence."""
    places = place_columns([place for place, _ in codes], [len(columns["sentence"]) for _, columns in codes])
    return {**places, **{name: np.concatenate([columns[name] for _, columns in codes]) for name in codes[0][1]}}
