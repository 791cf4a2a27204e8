"""In the domain and out of it: similarity on the corpus a model was tuned on beside that on other corpora."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pandas as pd

from vestige.report.blocks import Block
from vestige.report.charts import Charts
from vestige.report.curve_figures import curves_chart
from vestige.report.curves import Curve, curve_frame
from vestige.report.findings import Finding
from vestige.report.measures import of_task
from vestige.report.reading import Reading
from vestige.report.tables import Table, layer_cell
from vestige.report.wording import GLUE, bare_chance, be, chance, count, layer, layers

UNEVEN = 1.2
"""A sample that has so many times the sentences or words of another is not like it."""

_MORE = {"lower": "less", "higher": "more"}


def domain_blocks(
    reading: Reading, rows: pd.DataFrame, curves: Sequence[Curve], title: str, charts: Charts
) -> list[Block]:
    """A block a tuned model: curves of all corpora and tables of differences, the first measure unfolded."""
    blocks = []
    for model, mine in _by_model(reading, rows):
        block = Block(f"{model} in its domain and out of it", f"{_lede(mine)} {_verdicts(reading)}")
        for curve in _measured(curves, mine):
            part = mine[mine["metric"] == curve.metric]
            frame = _corpora(reading, rows, part, curve)
            spec = curves_chart(frame, curve, {}, f"{title}: {curve.title} of {block.heading}", "corpus")
            drawn = [charts.add(spec)] if frame["x"].nunique() > 1 else []
            tables = [_table(str(other), pair, curve) for other, pair in part.groupby("other", sort=False)]
            if block.tables:
                block.folded.append((curve.title, drawn, tables))
            else:
                block.charts, block.tables = drawn, tables
        blocks.append(block)
    return blocks


def domain_findings(reading: Reading, rows: pd.DataFrame, curves: Sequence[Curve], title: str) -> list[Finding]:
    """Per model and other corpus: where similarity differs most between the two."""
    found = []
    for _, mine in _by_model(reading, rows):
        for curve in _measured(curves, mine)[:1]:
            for other, pair in mine[mine["metric"] == curve.metric].groupby("other", sort=False):
                text, kind = _sentence(str(other), pair, curve, reading)
                found.append(Finding(title, text, kind, 2.0))
    return found


def _by_model(reading: Reading, rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The differences between the corpus of `rows` and others, whose names are in `other`."""
    known = reading.comparisons
    if "other_corpus" not in known:
        return
    first = rows.iloc[0]
    mine = of_task(known[known["other_corpus"].notna()], first["corpus"], first["task"], first["params"])
    for model, part in mine.groupby("model", sort=False):
        yield str(model), part.assign(other=_names(reading, part))


def _names(reading: Reading, rows: pd.DataFrame) -> pd.Series:
    """The other corpora by name, with task and split where one was taken in several ways."""
    several = rows.groupby("other_corpus")[["other_task", "other_params"]].transform("nunique") > 1
    splits = {name: setting.parameters.get("split", "") for name, setting in reading.settings.items()}
    tasks = rows["other_corpus"] + "/" + rows["other_task"]
    names = rows["other_corpus"].where(~several["other_task"], tasks)
    return names.where(~several["other_params"], names + " (" + rows["other_params"].map(splits).fillna("") + ")")


def _measured(curves: Sequence[Curve], rows: pd.DataFrame) -> list[Curve]:
    """The measures that rows have, with a decimal more: differences are small."""
    return [replace(curve, decimals=curve.decimals + 1) for curve in curves if (rows["metric"] == curve.metric).any()]


def _lede(rows: pd.DataFrame) -> str:
    """What was compared, how much of it, and what to mind where the samples are not alike."""
    first = rows.iloc[0]
    sizes = rows.drop_duplicates("other")
    told = [f"{count(first['words'])} words in {count(first['sentences'])} sentences of {first['corpus']}"]
    told += [f"{count(r.other_words)} in {count(r.other_sentences)} of {r.other}" for r in sizes.itertuples()]
    runs = int(first["runs"])
    text = f"How alike {first['model']} (tuned on {first['tuned_on']}) and {first['reference']} are on "
    text += f"{', '.join(told)}{f'; means over {runs} runs of fine-tuning' if runs > 1 else ''}."
    for kind in ("sentences", "words"):
        shares = sizes[f"other_{kind}"].astype(float) / float(first[kind])
        if ((shares > UNEVEN) | (shares < 1 / UNEVEN)).any():
            text += " The samples are not alike: words of fewer sentences are the more similar, whatever the corpus."
            break
    return text


def _verdicts(reading: Reading) -> str:
    alpha, margin = reading.judging.alpha, reading.judging.margin
    return f"Lower: less similar in the domain (q at most {alpha:g}); unchanged: within \u00b1{margin:g}."


def _corpora(reading: Reading, rows: pd.DataFrame, pairs: pd.DataFrame, curve: Curve) -> pd.DataFrame:
    """The curve of one model on its own corpus and on the others, which `series` names."""
    first = pairs.iloc[0]
    frames = [curve_frame(rows, curve, [first["model"]]).assign(series=f"{first['corpus']} (in domain)")]
    similar = reading.results[reading.results["analysis"] == first["analysis"]]
    for other, pair in pairs.groupby("other", sort=False):
        there = of_task(similar, *pair.iloc[0][["other_corpus", "other_task", "other_params"]])
        frames.append(curve_frame(there, curve, [first["model"]]).assign(series=other))
    return pd.concat(frames, ignore_index=True)


def _table(other: str, pair: pd.DataFrame, curve: Curve) -> Table:
    first = pair.iloc[0]
    lines = [
        [
            layer_cell(int(row.layer)),
            curve.text(row.in_domain),
            curve.text(row.out_of_domain),
            curve.change(row.difference),
            curve.span(row.low, row.high),
            bare_chance(row.q),
            row.verdict,
        ]
        for row in pair.itertuples()
    ]
    head = ["layer", first["corpus"], other, "difference", "interval", "q", "verdict"]
    caption = f"{curve.title}, {first['corpus']} minus {other}"
    return Table(caption, head, lines, tuple(pair["verdict"]))


def _sentence(other: str, pair: pd.DataFrame, curve: Curve, reading: Reading) -> tuple[str, str]:
    """What is said of one model and two corpora, and the verdict it goes by."""
    found = pair[pair["verdict"].isin(_MORE)]
    chosen = found if len(found) else pair
    top = chosen.loc[chosen["difference"].abs().idxmax()]
    here, reference, model = top["corpus"], top["reference"], top["model"]
    tuned = f"Tuned on {top['tuned_on'].partition('/')[0]},"
    if (pair["verdict"] == "unchanged").all():
        text = f"all layers of {model} are as similar to {reference} on {here} as on {other}"
        return f"{tuned} {text}, within {reading.judging.margin:g} of {curve.title}.", "unchanged"
    level = f"{100 * reading.judging.confidence:g}{GLUE}%"
    sure = f"{level} interval of the difference {curve.span(top['low'], top['high'])}, {chance('q', top['q'])}"
    mine, theirs = f"{curve.title} {curve.text(top['in_domain'])}", curve.text(top["out_of_domain"])
    if found.empty:
        text = f"no layer of {model} is shown to be less or more similar to {reference} on {here} than on {other}"
        text += f"; the largest difference is at {layer(int(top['layer']))} ({mine} and {theirs}, {sure})"
        return f"{tuned} {text}.", "undecided"
    where, verdict = int(top["layer"]), str(top["verdict"])
    text = f"{layer(where)} of {model} {be([where])} {_MORE[verdict]} similar to {reference} on {here} ({mine}) "
    text += f"than on {other} ({theirs}; {sure})"
    for name in sorted(_MORE, key=lambda name: name != verdict):
        rest = [int(number) for number in found.loc[found["verdict"] == name, "layer"] if number != where]
        if rest:
            text += f"; {layers(rest)} {be(rest)} {_MORE[name]} similar{' too' if name == verdict else ''}"
    return f"{tuned} {text}.", verdict
