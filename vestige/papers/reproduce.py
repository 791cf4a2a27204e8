"""`vestige reproduce`: run the study of a paper on some models, and write the paper's page from its tables."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from vestige.errors import VestigeError
from vestige.papers.keep import RESULTS, keep, open_run
from vestige.papers.observed import observe
from vestige.papers.page import Page
from vestige.papers.paper import find_paper, studies_of, write_sections
from vestige.papers.template import DEFAULT, SCALES, fill, template_text
from vestige.papers.verdicts import Claim
from vestige.study.finished import StudyRun
from vestige.study.run import Study
from vestige.study.spec import make_spec

PAGE = "paper.md"
NOTE = "Written from the tables of this run. Do not edit."


def study_of(
    name: str,
    scale: str = "demo",
    models: Sequence[str] = (),
    folder: str | Path | None = None,
    *,
    limit: int | None = None,
    device: str | None = None,
    **options: Any,
) -> Study:
    """The study that reproduces a paper; without models the embedded one, at the full scale those of the paper."""
    if scale not in SCALES:
        raise VestigeError(f"no scale is called {scale!r}", fix=f"choose one of {', '.join(SCALES)}")
    raw = fill(name, scale, models or default_models(name, scale))
    raw |= {} if limit is None else {"limit": limit}
    raw |= {} if device is None else {"compute": {**raw.get("compute", {}), "device": device}}
    return Study(make_spec(raw, where=f"{name} ({scale})"), folder, **options)


def default_models(name: str, scale: str) -> tuple[str, ...]:
    """The paper's own at the full scale, else the embedded one."""
    return find_paper(name).models if scale == "full" else (DEFAULT,)


def write_page(name: str, run: StudyRun, folder: str | Path, file: str = PAGE, note: str = NOTE) -> Path:
    """The page of a paper from the tables of a run, with its figures and with its claims as a table beside it."""
    paper, sides = find_paper(name), observe(run)
    page = Page(Path(folder))
    with run.tables.explaining_age():
        paper.opening(page, paper, sides)
        held = paper.claims(sides)
        page.claims(list(held.values()))
        write_sections(page, paper, sides)
    write_claims(Path(folder) / "claims.csv", held)
    return page.write(file, note)


def write_claims(path: Path, held: dict[str, dict[str, Claim]]) -> None:
    """Every statement by model: its verdict, and the estimates and bounds that it comes from, one a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as stream:
        lines = csv.writer(stream, lineterminator="\n")
        lines.writerow(["claim", "model", "verdict", "quantity", "estimate", "low", "high", "above", "below"])
        for name, claims in held.items():
            for model, claim in claims.items():
                rows = [
                    [part.what, *(f"{n:.6g}" for n in (e.value, e.low, e.high, part.above, part.below))]
                    for part in claim.parts
                    for e in [part.estimate]
                ]
                lines.writerows([name, model, claim.verdict, *row] for row in rows or [[""] * 6])


def keep_example(name: str, run: StudyRun, folder: Path) -> None:
    """Put a run into a folder: the tables that its page needs, and the study file."""
    keep(run, folder, find_paper(name).items_of)
    (folder / "study.yaml").write_text(study_text(name, run), encoding="utf-8")


def study_text(name: str, run: StudyRun) -> str:
    """The study file of a run: the template of its scale as it is written, or with other models in it."""
    study, models = run.tables.lock["spec"]["study"], [side.source for side in observe(run)]
    scale = next((scale for scale in SCALES if fill(name, scale, models)["study"] == study), None)
    if scale is None:
        raise VestigeError(
            f"{run.tables.folder} holds the study {study!r}, which is none of {name}", fix="name its paper"
        )
    if models == [DEFAULT]:
        return template_text(name, scale)
    return yaml.safe_dump(fill(name, scale, models), sort_keys=False, allow_unicode=True, width=120)


def write_example(name: str, folder: Path) -> Path:
    """The README of a kept run."""
    note = f"Written by `vestige reproduce {name}` from the tables in [results](results). Do not edit."
    return write_page(name, open_run(folder), folder, "README.md", note)


def rewrite(name: str, source: Path, target: Path | None = None, kept: Path | None = None) -> Path:
    """The page of a run, or of an example that keeps one, written again; `kept`: make that folder such an example."""
    study = studies_of(name)[0]
    if kept is not None:
        keep_example(study, open_run(source), kept)
        return write_example(study, kept)
    if target is None and (source / RESULTS).is_dir():
        return write_example(study, source)
    run = open_run(source)
    return write_page(study, run, target or run.tables.folder)
