"""In the domain and out of it: a measure on the corpus a model was tuned on beside that on other corpora."""

from collections.abc import Sequence

import pandas as pd

from vestige.analyses.metric import LAYER, Metric
from vestige.report import numbers
from vestige.report.changes import beyond, cells, evidence, interval, weight
from vestige.report.curves import curve_frame, of_metric
from vestige.report.drawing.curves import curves_chart
from vestige.report.reading import Part, Reading
from vestige.report.types import Block, Finding, Folded, Section, Table
from vestige.report.wording import be, chance, count, layer, layers

UNEVEN = 1.2
"""A sample that has so many times the sentences or words of another is not like it."""

_MORE = {"lower": "less", "higher": "more"}


def add_domains(reading: Reading, part: Part, section: Section, lead: str) -> None:
    """Of every tuned model a block; per other corpus, where its first measure differs most between the two."""
    for model, mine in part.domains.groupby("model", sort=False):
        mine = mine.assign(other=_names(reading, mine))
        metrics = [metric for metric in of_metric(part) if (mine["metric"] == metric.name).any()]
        section.blocks.append(_block(reading, part, mine, metrics))
        for other, pair in mine[mine["metric"] == metrics[0].name].groupby("other", sort=False):
            text, kind = _sentence(str(other), pair, metrics[0], reading)
            section.findings.append(
                Finding(lead, text, kind, weight(pair, kind), (*part.key, str(model)), evidence(pair))
            )


def _block(reading: Reading, part: Part, rows: pd.DataFrame, metrics: Sequence[Metric]) -> Block:
    """One tuned model: curves of all corpora and tables of differences, the first measure unfolded."""
    model = rows["model"].iloc[0]
    block = Block(f"{model} in its domain and out of it", f"{_lede(rows)} {_verdicts(reading, metrics[0], rows)}")
    for metric in metrics:
        mine = rows[rows["metric"] == metric.name]
        frame = _corpora(reading, part, mine, metric)
        described = f"{part.title}: {metric.title} of {block.heading}"
        drawn = [curves_chart(frame, metric, LAYER, described, what="corpus")] if frame["x"].nunique() > 1 else []
        tables = [_table(str(other), pair, metric) for other, pair in mine.groupby("other", sort=False)]
        if block.tables:
            block.folded.append(Folded(metric.title, drawn, tables))
        else:
            block.figures, block.tables = drawn, tables
    return block


def _names(reading: Reading, rows: pd.DataFrame) -> pd.Series:
    """The other corpora by name, with task and split where one was taken in several ways."""
    several = rows.groupby("other_corpus")[["other_task", "other_params"]].transform("nunique") > 1
    splits = {name: setting.parameters.get("split", "") for name, setting in reading.settings.items()}
    tasks = rows["other_corpus"] + "/" + rows["other_task"]
    names = rows["other_corpus"].where(~several["other_task"], tasks)
    return names.where(~several["other_params"], names + " (" + rows["other_params"].map(splits).fillna("") + ")")


def _lede(rows: pd.DataFrame) -> str:
    """What was compared, how much of it, and what to mind where the samples are not alike."""
    first = rows.iloc[0]
    sizes = rows.drop_duplicates("other")
    parts = [f"{count(first['items'])} words in {count(first['sentences'])} sentences of {first['corpus']}"]
    parts += [f"{count(r.other_items)} in {count(r.other_sentences)} of {r.other}" for r in sizes.itertuples()]
    runs = int(first["runs"])
    text = f"How alike {first['model']} (tuned on {first['tuned_on']}) and {first['reference']} are on "
    text += f"{', '.join(parts)}{f'; means over {runs} runs of fine-tuning' if runs > 1 else ''}."
    for kind in ("sentences", "items"):
        shares = sizes[f"other_{kind}"].astype(float) / float(first[kind])
        if ((shares > UNEVEN) | (shares < 1 / UNEVEN)).any():
            text += " The samples are not alike: words of fewer sentences are the more similar, whatever the corpus."
            break
    return text


def _verdicts(reading: Reading, metric: Metric, rows: pd.DataFrame) -> str:
    within = numbers.margin(metric, float(rows["margin"].max()))
    return f"Lower: less similar in the domain (q at most {reading.judging.alpha:g}); unchanged: within \u00b1{within}."


def _corpora(reading: Reading, part: Part, pairs: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    """The curve of one model on its own corpus and on the others, which `series` names."""
    model = pairs["model"].iloc[0]
    frames = [curve_frame(part.rows, metric, LAYER).assign(series=f"{part.corpus} (in domain)")]
    measured = reading.results[reading.results["analysis"] == part.declared.analysis]
    for other, pair in pairs.groupby("other", sort=False):
        wanted = pair[["other_corpus", "other_task", "other_params"]].iloc[0].tolist()
        there = measured[(measured[["corpus", "task", "params"]] == wanted).all(axis=1)]
        frames.append(curve_frame(there, metric, LAYER).assign(series=other))
    frame = pd.concat(frames, ignore_index=True)
    return frame[frame["model"] == model]


def _table(other: str, pair: pd.DataFrame, metric: Metric) -> Table:
    first = pair.iloc[0]
    lines = [
        [numbers.place_cell(LAYER, row["layer"]), *cells(metric, row, 0, ("in_domain", "out_of_domain"))]
        for _, row in pair.iterrows()
    ]
    head = ["layer", first["corpus"], other, "difference", "interval", "q", "verdict"]
    caption = f"{metric.title}, {first['corpus']} minus {other}"
    return Table(caption, head, lines, tuple(pair["verdict"]))


def _sentence(other: str, pair: pd.DataFrame, metric: Metric, reading: Reading) -> tuple[str, str]:
    """What is said of one model and two corpora, and the verdict it goes by."""
    found = pair[pair["verdict"].isin(_MORE)]
    chosen = found if len(found) else pair
    top = chosen.loc[chosen["difference"].abs().idxmax()]
    here, reference, model = top["corpus"], top["reference"], top["model"]
    tuned = f"Tuned on {top['tuned_on'].partition('/')[0]},"
    if (pair["verdict"] == "unchanged").all():
        text = f"all layers of {model} are as similar to {reference} on {here} as on {other}"
        return f"{tuned} {text}, within {numbers.margin(metric, top['margin'])} of {metric.title}.", "unchanged"
    if pair["q"].isna().all():
        text = f"how similar {model} is to {reference} on {here} and on {other} is described, not tested"
        return f"{tuned} {text}.", "described"
    sure = f"{interval(reading.judging)} of the difference {numbers.span(metric, top['low'], top['high'])}, "
    sure += chance("q", top["q"])
    mine, theirs = (numbers.text(metric, top[side]) for side in ("in_domain", "out_of_domain"))
    if found.empty:
        text = f"no layer of {model} is shown to be less or more similar to {reference} on {here} than on {other}"
        text += f"{beyond(metric, pair, reading.judging.alpha)}; the largest difference is at "
        text += f"{layer(int(top['layer']))} ({metric.title} {mine} and {theirs}, {sure})"
        return f"{tuned} {text}.", "undecided"
    where, verdict = int(top["layer"]), str(top["verdict"])
    text = f"{layer(where)} of {model} {be([where])} {_MORE[verdict]} similar to {reference} on {here} "
    text += f"({metric.title} {mine}) than on {other} ({theirs}; {sure})"
    for name in sorted(_MORE, key=lambda name: name != verdict):
        rest = [int(number) for number in found.loc[found["verdict"] == name, "layer"] if number != where]
        if rest:
            text += f"; {layers(rest)} {be(rest)} {_MORE[name]} similar{' too' if name == verdict else ''}"
    return f"{tuned} {text}.", verdict
