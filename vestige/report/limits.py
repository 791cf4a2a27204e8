"""What the numbers do not say: one line for each thing a reader has to know before quoting them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from vestige.analyses.metric import Metric
from vestige.comparison.differences import FAILED, LEAST_SENTENCES
from vestige.report import numbers
from vestige.report.reading import Reading
from vestige.report.types import Page
from vestige.report.warnings import OVERLAP, overlaps
from vestige.report.wording import count, layers, listing


def limits(reading: Reading, pages: Sequence[Page]) -> list[str]:
    """Limits of this study: runs of every tuned model, models, sample, what was lost and left out."""
    lock = reading.lock
    lines = [
        *_failed(lock),
        *lock.get("unpaired", []),
        *_runs(reading.tuned_runs),
        *(line for page in pages for line in page.limits),
        *_sources(lock),
        *_sample(lock),
        *(f"{text}." for text, share in overlaps(reading) if share <= OVERLAP),
        *_sinks(lock),
        *_remarks(reading),
        *_unpaired(reading.comparisons),
    ]
    return list(dict.fromkeys(lines))


def glossary(reading: Reading) -> list[tuple[str, str]]:
    """The terms of the statistics, a line each; none where nothing is compared."""
    if not reading.tuned_runs or (reading.comparisons.empty and reading.results["low"].isna().all()):
        return []
    settings, runs = reading.judging, max(reading.tuned_runs.values())
    verdicts = set(reading.comparisons["verdict"]) if len(reading.comparisons) else set()
    drawn = f"from {count(settings.resamples)} resamplings of test sentences"
    chance = "how often a difference as large arises when whole sentences swap base and tuned at random"
    sources = "seeds of a probe whose training depends on them" + (", and fine-tuning runs" if runs > 1 else "")
    drawn += f"; where there are further sources of error ({sources}), Student's, from the variance of all sources"
    chance += "; with further sources of error, by the test that belongs to the interval"
    return [
        (f"{100 * settings.confidence:g} % interval", f"{drawn}; it does not cover other training data."),
        ("p", f"{chance}."),
        ("q", "p corrected for testing many layers, tasks and models (Benjamini-Hochberg)."),
        *(("margin", text) for text in _margins(reading)),
        (
            "lower, higher",
            f"q is at most {settings.alpha:g}, and the difference is not shown to lie within the margin.",
        ),
        (
            "unchanged",
            f"shown to lie within the margin (two one-sided tests at {settings.alpha:g}, corrected as q is); "
            "more than 'no difference found'. A significant difference may be that small.",
        ),
        ("undecided", "neither shown to differ nor shown to lie within the margin: more data would be needed."),
        *([_DESCRIBED] if "described" in verdicts else []),
        *((FAILED, metric.about) for metric in _of_role(reading, "failure") if FAILED in verdicts),
    ]


_DESCRIBED = (
    "described",
    "a difference without a test, of which nothing is claimed: another seed may train another probe, and there is one; "
    f"or fewer than {LEAST_SENTENCES} sentences are scored.",
)


def _margins(reading: Reading) -> Iterator[str]:
    """What counts as no difference, by metric."""
    if reading.comparisons.empty:
        return
    titles: dict[str, list[str]] = {}
    known = reading.comparisons[["params", "metric", "margin"]].drop_duplicates()
    for params, name, margin in known.itertuples(index=False):
        metric = reading.declared[params].metrics[name]
        own = titles.setdefault(numbers.margin(metric, margin), [])
        own += [] if metric.title in own else [metric.title]
    texts = [f"\u00b1{text} of {listing(own)}" for text, own in titles.items()]
    yield f"the largest difference that counts as none: {'; '.join(texts)}."


def _of_role(reading: Reading, role: str) -> list[Metric]:
    """The metrics of a role that the run has, each once."""
    declared = [metric for one in reading.declared.values() for metric in one.metrics.values()]
    return list({metric.name: metric for metric in declared if metric.role == role}.values())


def _remarks(reading: Reading) -> Iterator[str]:
    """What analyses counted of what they lost or left out: of every task, or of every model, the most."""
    for metric in _of_role(reading, "remark"):
        rows = reading.results[reading.results["metric"] == metric.name]
        rows = rows[(rows["value"] > metric.above).fillna(False)]
        by = ["model"] if "{model}" in metric.remark else ["corpus", "task"]
        by += [name for name in ("split", "subset") if f"{{{name}}}" in metric.remark]
        for _, mine in rows.groupby(by, sort=False, dropna=False):
            yield f"{_where(reading, mine, by)}{_remark(metric, mine)}."


def _remark(metric: Metric, rows: pd.DataFrame) -> str:
    most = rows.iloc[rows["value"].to_numpy(dtype=float).argmax()]
    value = count(most["value"]) if metric.unit == "count" else numbers.text(metric, most["value"])
    said = {name: "" if pd.isna(most[name]) else most[name] for name in ("split", "subset", "model")}
    total, where = "" if pd.isna(most["n"]) else count(most["n"]), layers(rows["layer"].dropna().astype(int))
    return metric.remark.format(value=value, n=total, layers=where, **said).rstrip(".")


def _where(reading: Reading, rows: pd.DataFrame, by: Sequence[str]) -> str:
    """Whose words were lost: 'corpus/task: '; the corpora alone where labels play no role or a model is spoken of."""
    corpora = [corpus for corpus in rows["corpus"].drop_duplicates() if corpus]
    if "model" in by or not corpora:
        several = reading.results["corpus"].nunique() > 1
        return f"{listing(corpora)}: " if several and corpora else ""
    labelled = reading.declared[rows["params"].iloc[0]].uses_labels
    return f"{corpora[0]}/{rows['task'].iloc[0]}: " if labelled else f"{corpora[0]}: "


def _failed(lock: Mapping[str, Any]) -> list[str]:
    """Cells that did not finish, each with its error."""
    lines = []
    for cell in lock.get("failed", []):
        run = f", run {cell['run']}" if cell["run"] else ""
        read = f" of {cell['corpus']}/{cell['task']}" if cell["corpus"] else ""
        where = f"{cell['analysis']}{read}, model {cell['model']}{run}"
        lines.append(f"Failed, and missing from this page: {where} ({cell['problem']}).")
    return lines


def _runs(runs: Mapping[str, int]) -> list[str]:
    by_number: dict[int, list[str]] = {}
    for model, number in runs.items():
        by_number.setdefault(number, []).append(model)
    single = by_number.pop(1, [])
    what = "this checkpoint" if len(single) == 1 else "these checkpoints"
    once = (
        f"One tuned run supports findings about {what} ({listing(single)}) only, "
        "not about fine-tuning on that task in general."
    )
    several = [
        f"{listing(models)}: {number} fine-tuning runs{' each' * (len(models) > 1)}, averaged; intervals cover the "
        "runs too."
        for number, models in by_number.items()
    ]
    return [once, *several] if single else several


def _sources(lock: Mapping[str, Any]) -> list[str]:
    found = [
        name
        for name, runs in lock.get("models", {}).items()
        if any(str(run.get("source", "")).lower() == "minilm" for run in runs)
    ]
    if not found:
        return []
    return [
        f"{listing(found)} {'is' if len(found) == 1 else 'are'} MiniLM (all-MiniLM-L6-v2), which is itself tuned for "
        "sentence similarity: it is no plain pre-trained model, and nothing here is about other models."
    ]


def _sample(lock: Mapping[str, Any]) -> list[str]:
    limit = lock.get("spec", {}).get("limit")
    return [f"A limited run: only the first {count(limit)} sentences of every split were used."] if limit else []


def _sinks(lock: Mapping[str, Any]) -> list[str]:
    """Models whose first token is an attention sink, and how many words have no other token."""
    models: dict[tuple[str, int, int], list[str]] = {}
    for facts in lock.get("tokens", []):
        if facts["sink_left_out"]:
            models.setdefault((facts["corpus"], facts["sink_words"], facts["words"]), []).append(facts["model"])
    return [
        f"{corpus}: the hidden state of a sentence's first token is left out for {listing(names)}, because it is an "
        "attention sink, huge and much the same whatever the word"
        + (f"; {count(lost)} of {count(words)} words have no other token and are not read." if words else ".")
        for (corpus, lost, words), names in models.items()
    ]


def _unpaired(comparisons: pd.DataFrame) -> list[str]:
    """Items that were scored of one model only; by task, of the model that lacks the most."""
    if "dropped_items" not in comparisons:
        return []
    rows = comparisons[(comparisons["dropped_items"] > 0).fillna(False)]
    return [
        f"{corpus}/{task}: up to {count(part['dropped_items'].max())} scored items had no partner in the other model "
        "and are left out of comparisons."
        for (corpus, task), part in rows.groupby(["corpus", "task"], sort=False)
    ]
