"""The report as one HTML file that needs no network and can be mailed."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from vestige.cache import write_file
from vestige.comparison.failed import FAILED
from vestige.report import provenance, sections
from vestige.report.caveats import caveats, glossary
from vestige.report.chapter_sections import chapter_headlines, chapter_sections
from vestige.report.charts import Charts, safe_json
from vestige.report.explorer import explorer_note, explorer_views
from vestige.report.findings import overview
from vestige.report.neurons import neuron_sections
from vestige.report.reading import Reading
from vestige.report.warnings import warnings


def write_report(
    target: Path,
    results: pd.DataFrame,
    comparisons: pd.DataFrame,
    cells: pd.DataFrame,
    lock: Mapping[str, Any],
    *,
    changes: pd.DataFrame | None = None,
    explorers: Mapping[str, pd.DataFrame] | None = None,
    trees: Mapping[str, pd.DataFrame] | None = None,
) -> None:
    """Write the report of a run; `comparisons` may be empty.

    `changes` is the table of selections of neurons that fine-tuning changed; `explorers` has, by
    cell, what its best neurons answer to, `trees` the sentences whose trees a structural probe drew.
    """
    known = pd.DataFrame() if changes is None else changes
    page = render(Reading(results, comparisons, cells, lock, known, explorers or {}, trees or {}))
    write_file(Path(target), page.encode(errors="backslashreplace"))


def render(reading: Reading) -> str:
    """The whole page."""
    charts = Charts()
    shown = _numbers(reading, charts) | _neurons(reading, charts) | _origins(reading, charts)
    shown["chapters"] = chapter_sections(reading, charts)
    template = _environment().get_template("page.html.j2")
    return template.render(**shown, specs=Markup(safe_json(charts.specs)), bundle=Markup(_bundle()))


def _numbers(reading: Reading, charts: Charts) -> dict[str, Any]:
    runs = max(reading.tuned_runs.values(), default=1)
    return {
        "title": reading.title,
        "about": reading.lock.get("spec", {}).get("about", ""),
        "statement": reading.statement,
        "overview": overview(reading.groups) if reading.groups else "",
        "findings": [*reading.headlines, *reading.neuron_headlines, *chapter_headlines(reading)],
        "compared": bool(reading.groups),
        "compares": reading.compares,
        "warnings": warnings(reading.results, reading.lock),
        "caveats": caveats(reading.results, reading.comparisons, reading.lock, reading.tuned_runs),
        "glossary": glossary(reading.judging, runs, *(_has(reading, name) for name in ("described", FAILED)))
        if reading.tuned_runs
        else [],
        "margin": reading.judging.margin,
        "confidence": reading.judging.confidence,
        "tasks": sections.task_sections(reading, charts),
        "heat": sections.heat_section(reading, charts),
        "controls": sections.control_sections(reading, charts),
        "fold_controls": len(reading.primary) > sections.MANY,
        "labels": sections.label_sections(reading, charts),
        "tables": sections.comparison_tables(reading),
    }


def _has(reading: Reading, verdict: str) -> bool:
    return "verdict" in reading.comparisons and bool((reading.comparisons["verdict"] == verdict).any())


def _neurons(reading: Reading, charts: Charts) -> dict[str, Any]:
    views = explorer_views(reading)
    return {
        "neurons": neuron_sections(reading, charts),
        "explorer": Markup(safe_json(views)) if views else "",
        "explorer_note": explorer_note(reading),
    }


def _origins(reading: Reading, charts: Charts) -> dict[str, Any]:
    lock = reading.lock
    return {
        "tuning": provenance.tuning_sections(lock, charts),
        "models": provenance.model_table(lock),
        "corpora": provenance.corpus_table(lock),
        "corpus_notes": provenance.corpus_notes(lock),
        "settings": [(setting, provenance.decisions(setting)) for setting in reading.settings.values()],
        "versions": provenance.versions(lock),
        "notes": list(lock.get("notes", [])),
        "spec": json.dumps(lock.get("spec", {}), indent=1, ensure_ascii=False),
    }


@cache
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, with nothing in it that could end the element early."""
    return (
        vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
        .replace("</script", "<\\/script")
        .replace("<!--", "<\\!--")
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("vestige.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["groupby_in_order"] = _grouped
    return environment


def _grouped(items: Sequence[Any], name: str) -> list[tuple[Any, list[Any]]]:
    """Neighbours that share an attribute, together; unlike Jinja's own, in the order given."""
    return [(key, list(several)) for key, several in groupby(items, key=lambda item: getattr(item, name))]
