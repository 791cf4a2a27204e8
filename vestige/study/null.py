"""Would a finding also appear if the two models were the same? An analysis on copies of one model.

`null_study` compares a model with rotated copies of itself and with copies that have 1 % noise, by the same
way as any study: cells, comparisons, page. `null_table` counts what it claims. A sound analysis claims
nothing: at most alpha of its comparisons are significant after correction, and no sentence speaks of change.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from vestige.corpus.types import Corpus
from vestige.models.encoders.copies import CopiedEncoder
from vestige.models.encoders.encoder import Encoder
from vestige.study.corpora import Given
from vestige.study.finished import StudyRun
from vestige.study.run import Study

NOISE = 0.01


def null_study(
    encoder: Encoder,
    corpora: dict[str, Corpus],
    analyses: Sequence[dict[str, Any]],
    folder: Path,
    *,
    copies: int = 1,
    rotated: bool = True,
    noise: float = NOISE,
    cache: Path | None = None,
) -> StudyRun:
    """The study of a model against `copies` rotated and `copies` noisy ones; analyses as in a study file."""
    given: dict[str, Encoder] = {"base": encoder}
    for seed in range(copies):
        if rotated:
            given[f"rotated {seed}"] = CopiedEncoder(encoder, seed, rotated=True)
        given[f"noise {seed}"] = CopiedEncoder(encoder, seed, noise=noise)
    models = {name: {"load": "(given)", **({} if name == "base" else {"reference": "base"})} for name in given}
    raw = {
        "study": "null",
        "models": models,
        "corpora": {name: {"files": {}} for name in corpora},
        "analyses": list(analyses),
    }
    return Study.from_dict(raw, folder, given=Given(given, corpora), cache=cache).run()


def null_table(run: StudyRun) -> pd.DataFrame:
    """A row per analysis, metric and kind of copy: comparisons, those significant, called unchanged, or called changed.

    A difference within the margin is called unchanged even where it is significant."""
    table = run.comparisons.assign(copy=run.comparisons["model"].str.split(" ").str[0])
    alpha = run.tables.lock["spec"]["compare"]["alpha"]
    grouped = table.groupby(["analysis", "params", "metric", "copy"], sort=False)
    counted = grouped.agg(
        comparisons=("q", "size"),
        described=("p", lambda p: int(p.isna().sum())),
        significant=("q", lambda q: int((q <= alpha).sum())),
        uncorrected=("p", lambda p: int((p <= alpha).sum())),
        unchanged=("verdict", lambda verdict: int((verdict == "unchanged").sum())),
        changed=("verdict", lambda verdict: int(verdict.isin(["lower", "higher"]).sum())),
        largest=("difference", lambda difference: float(difference.abs().max())),
    )
    return counted.reset_index()


_CLAIMING = re.compile(
    "change places|shown to drop|they move to|more neurons leave|lose more than|gain more than|effects shrink|falls to"
    "|still finds|due to|stays high because",
    re.IGNORECASE,
)
"""What a sentence that is marked as a note says where it claims a change, a move or an order."""


def claims(run: StudyRun) -> list[str]:
    """Sentences of change on the page: those marked as lower or higher, and notes that claim one."""
    page = run.report().read_text()
    found = []
    for kind, text in re.findall(r'<(?:li|span) class="is-([^"]+)">(.*?)</(?:li|span)>', page, flags=re.DOTALL):
        plain = " ".join(re.sub(r"<[^>]+>", " ", text).split())
        if kind in ("lower", "higher") or _CLAIMING.search(plain):
            found.append(plain)
    return found
