"""How values and places of a metric are written: from its declaration, so that every page writes them alike."""

import math
from collections.abc import Iterable

from vestige.analyses.metric import LAYER, Axis, Metric
from vestige.report.wording import ARROW, DASH, GLUE, MINUS, layer, layers, listing, number, signed

_UNITS = {"percent": "points", "bits": "bits", "nats": "nats"}
"""Of differences, in words; ratios, counts and plain numbers have none."""
_AXES = {"percent": "%", "bits": "bits", "nats": "nats"}


def scale(metric: Metric) -> float:
    """What a value is multiplied by before it is shown: shares become percent."""
    return 100.0 if metric.unit == "percent" else 1.0


def text(metric: Metric, value: float) -> str:
    """A value: '82.6' (of percent), '0.470'; a dash where it is missing."""
    return number(scale(metric) * value, metric.decimals)


def change(metric: Metric, difference: float, further: int = 0) -> str:
    """A difference with its sign, in points where values are percent; `further`: decimals more."""
    return signed(scale(metric) * difference, metric.decimals + further)


def span(metric: Metric, low: float, high: float, further: int = 0) -> str:
    """The interval of a difference: '-3.9 to -2.3' with true minus signs; a dash where there is none."""
    return DASH if math.isnan(low) else f"{change(metric, low, further)} to {change(metric, high, further)}"


def level(metric: Metric, value: float, low: float = math.nan, high: float = math.nan) -> str:
    """A value with its interval, where it has one: '82.1 (80.0 to 84.2)'."""
    if low is None or math.isnan(low):
        return text(metric, value)
    return f"{text(metric, value)} ({text(metric, low)} to {text(metric, high)})".replace(" ", GLUE)


def moved(metric: Metric, base: float, tuned: float) -> str:
    """Two values: '82.6 -> 79.5' with a true arrow."""
    return GLUE.join([text(metric, base), ARROW, text(metric, tuned)])


def amount(metric: Metric, difference: float) -> str:
    """How large a difference is, without its sign: '3.1 points', '0.020 nats', '0.12'."""
    return _with_unit(metric, text(metric, abs(difference)))


def margin(metric: Metric, within: float) -> str:
    """A margin of equivalence as a reader would write it: '0.5 points', '0.02 nats'."""
    return _with_unit(metric, f"{scale(metric) * within:g}".replace("-", MINUS))


def axis_title(metric: Metric) -> str:
    """For the axis of a chart: 'UUAS (%)', 'loss (nats)', 'RSA'."""
    unit = _AXES.get(metric.unit)
    return f"{metric.title} ({unit})" if unit and unit not in metric.title else metric.title


def change_title(metric: Metric) -> str:
    """For the axis of a chart of differences: 'change (points)'."""
    return f"change ({_UNITS[metric.unit]})" if metric.unit in _UNITS else "change"


def places(axis: Axis, numbers: Iterable[float]) -> str:
    """Places on an axis inside a sentence: 'layers 2 to 5', 'blocks frozen 3 and 4'."""
    ordered = sorted(set(numbers))
    if axis.name == LAYER.name:
        whole = [int(number) for number in ordered]
        return layer(whole[0]) if len(whole) == 1 else layers(whole)
    return f"{axis_name(axis)} {listing([_plain(one) for one in ordered])}"


def axis_name(axis: Axis) -> str:
    """What an axis is called inside a sentence: its title without what it adds in brackets."""
    return axis.title.partition(" (")[0]


def place_cell(axis: Axis, x: float) -> str:
    """A place on an axis in a table; layer 0 has a name."""
    return "embeddings" if axis.name == LAYER.name and x == 0 else _plain(x)


def _plain(x: float) -> str:
    return f"{x:g}".replace("-", MINUS)


def _with_unit(metric: Metric, written: str) -> str:
    unit = _UNITS.get(metric.unit, "")
    return f"{written} {unit.removesuffix('s') if written == '1' else unit}".strip()
