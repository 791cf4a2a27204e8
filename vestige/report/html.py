"""The report as one HTML file that needs no network and can be mailed."""

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from vestige.cache import write_file
from vestige.report import provenance
from vestige.report.front import MOST, overview, paragraphs, read_pages, statement, take_opening
from vestige.report.limits import glossary, limits
from vestige.report.names import citation, file_name, run_hash
from vestige.report.reading import Reading
from vestige.report.types import Figure, Page
from vestige.report.warnings import warnings


def write_report(target: Path, reading: Reading) -> None:
    """Write the report of a run."""
    write_file(Path(target), render(reading).encode(errors="backslashreplace"))


def render(reading: Reading) -> str:
    """The whole page."""
    named = read_pages(reading)
    pages = [page for _, page in named]
    opening = take_opening(pages)
    specs: dict[str, dict[str, Any]] = {}

    def place(figure: Figure) -> str:
        """The id of the element that a figure is drawn into, given as the page is written."""
        name = f"chart-{len(specs) + 1}"
        specs[name] = figure.spec
        return name

    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            **_origins(reading),
            title=reading.title,
            about=reading.lock.get("spec", {}).get("about", ""),
            statement=statement(reading),
            answers=paragraphs(named),
            overview=overview(reading, pages, opening),
            findings=opening,
            warnings=warnings(reading),
            limits=limits(reading, pages),
            glossary=glossary(reading),
            pages=named,
            explorer=packed(views) if (views := [view for page in pages for view in page.explorer]) else "",
            explorer_note=" ".join(page.explorer_note for page in pages if page.explorer_note),
            place=place,
            specs=lambda: packed(specs),
            bundle=Markup(_bundle()),
            citation=citation(reading),
            run_hash=run_hash(reading),
            choices=_choices(reading, pages),
            most=MOST,
        )
    )


def _choices(reading: Reading, pages: Sequence[Page]) -> list[tuple[str, list[str]]]:
    """What a reader may hide: models and tasks, where there are several."""
    models = [str(name) for name in reading.results["model"].drop_duplicates()] if len(reading.results) else []
    tasks = list(dict.fromkeys(section.name for page in pages for section in page.sections if section.name))
    least = {"Models": 3, "Tasks": 2}
    return [(kind, names) for kind, names in (("Models", models), ("Tasks", tasks)) if len(names) >= least[kind]]


def packed(value: Any) -> Markup:
    """JSON, deflated and in base 64: charts of many models say much the same, and nothing in it can end the element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Markup(b64encode(zlib.compress(text.encode(), 9)).decode())


def unpacked(text: str) -> Any:
    """What was packed."""
    return json.loads(zlib.decompress(b64decode(text)))


def _origins(reading: Reading) -> dict[str, Any]:
    lock = reading.lock
    return {
        "tuning": provenance.tuning_sections(lock),
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
    environment.filters["file_name"] = file_name
    return environment


def _grouped(items: Sequence[Any], name: str) -> list[tuple[Any, list[Any]]]:
    """Neighbours that share an attribute, together; unlike Jinja's own, in the order given."""
    return [(key, list(several)) for key, several in groupby(items, key=lambda item: getattr(item, name))]
