"""Geometry: the default page; for the opening, where vectors crowd or spread, and how many dimensions they fill."""

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from vestige.analyses.metric import Metric
from vestige.report import changes, default, numbers
from vestige.report.reading import Part, Reading
from vestige.report.types import Answer, Page
from vestige.report.wording import layer, layers, listing

_WORDS = {
    "mean_cosine": {
        "higher": "point more in one direction (more anisotropic)",
        "lower": "point less in one direction (less anisotropic)",
    },
    "participation_ratio": {"higher": "spread over more dimensions", "lower": "spread over fewer dimensions"},
}
"""What the opening says of a change of a metric; of the others the page speaks."""


_HEAVIEST = 1.0
"""Seven numbers of one cloud change together, by many margins; they must not crowd out what probes read."""


def page(reading: Reading, analysis: str) -> Page:
    """The default page, with a sentence for the opening."""
    found = default.page(reading, analysis)
    for section in found.sections:
        section.findings = [replace(one, weight=min(one.weight, _HEAVIEST)) for one in section.findings]
    parts = reading.parts(analysis)
    found.answers = [answer for part in parts for answer in _answers(part, part.title if len(parts) > 1 else "")]
    return found


def _answers(part: Part, where: str) -> Iterator[Answer]:
    """Of every tuned model what changed, with the layer where it changed most; or that nothing did, if shown."""
    known = {name: part.declared.metrics[name] for name in _WORDS if name in part.declared.metrics}
    compared = {name: changes.of(part, metric).dropna(subset=["difference"]) for name, metric in known.items()}
    on = f" on {where}" if where else ""
    for model in dict.fromkeys(name for rows in compared.values() for name in rows["model"]):
        mine = {name: rows[rows["model"] == model] for name, rows in compared.items()}
        texts, kinds = [], []
        for name, rows in mine.items():
            for verdict, words in _WORDS[name].items():
                shown = rows[rows["verdict"] == verdict]
                if len(shown):
                    texts.append(f"{words} {_largest(known[name], shown)}")
                    kinds.append(verdict)
        if texts:
            yield Answer("representations", model, f"Word vectors{on} {listing(texts)}.", kinds[0])
        elif all(len(rows) and (rows["verdict"] == "unchanged").all() for rows in mine.values()):
            same = [f"{metric.title} (within \u00b1{_margin(metric, mine[name])})" for name, metric in known.items()]
            text = f"Of word vectors{on}, {listing(same)} {'is' if len(same) == 1 else 'are'} unchanged at every layer."
            yield Answer("representations", model, text, "unchanged")


def _largest(metric: Metric, rows: pd.DataFrame) -> str:
    """'at layers 5 and 6 (mean cosine of two words 0.20 -> 0.50 at layer 6)'."""
    top = rows.loc[rows["difference"].abs().idxmax()]
    most = f" at {layer(int(top['layer']))}" if len(rows) > 1 else ""
    return f"at {layers(rows['layer'])} ({metric.title} {numbers.moved(metric, top['base'], top['tuned'])}{most})"


def _margin(metric: Metric, rows: pd.DataFrame) -> str:
    return numbers.margin(metric, float(rows["margin"].max()))
