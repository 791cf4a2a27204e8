"""The page of this example: `python -m examples.mosbach2020 RUN` keeps the tables of a run and writes it."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import stats

from examples.mosbach2020 import figures
from examples.mosbach2020.changes import CORPORA, PROBED, TUNED, Changes
from examples.page import Claim, Page, apart, command, one, pick, unlearnt
from vestige.report.wording import listing
from vestige.study.run import StudyRun

SCORES = {
    "cola": [("matthews", "CoLA, Matthews")],
    "sst2": [("accuracy", "SST-2, accuracy")],
    "rte": [("accuracy", "RTE, accuracy")],
    "squad": [("exact_match", "SQuAD, exact match"), ("f1", "SQuAD, F1")],
}
POOLINGS = {"cls": "[CLS]", "sentence_mean": "mean"}


def build(page: Page) -> None:
    """The whole page."""
    run = page.run
    changes = Changes(run)
    _head(page, run)
    page.text("## What the paper says, and what is seen here")
    page.claims([*_probing_claims(run, changes), *_attention_claims(run), *_perplexity_claims(run)])
    page.text("## Probing the base model (Figure 1)")
    page.figure(figures.base_accuracy(changes), "figure1", "Probe accuracy of the base model by layer and pooling")
    page.text("## How tuning changes what probes find")
    for number, tasks in ((2, ("cola", "sst2")), (5, ("rte", "squad"))):
        _groups(page, changes, number, tasks)
    page.text(
        "\\* shown to differ: the 95 % interval over sentences and runs leaves out zero (no correction over the cells "
        "of this table). Figure 4: change with [CLS], with a dot where a layer is shown to differ; the diamonds are "
        "tuned [CLS] against the *mean* of the base model, which a gain of new knowledge would have to pass. Figure 5: "
        "change with the mean."
    )
    page.figure(figures.by_layer(changes, "cls"), "figure4", "Change of accuracy by layer with [CLS]")
    page.figure(figures.by_layer(changes, "sentence_mean"), "figure5", "Change of accuracy by layer with the mean")
    page.text(
        "## Attention of [CLS] (Figure 2)",
        "Entropy in nats, and the earth mover's distance from the base model's attention for the same sentence and "
        "head (one token's step costs 1), means over heads, sentences and runs.",
    )
    page.figure(figures.attention(run), "figure2", "Entropy and movement of the attention of [CLS] by layer")
    page.text(
        "## The language model (Figure 3)",
        f"Perplexity of masked tokens of WikiText-2 ({_text_read(run)}) with the head that was fitted on the base "
        "model; mean and standard deviation over runs. Left: during tuning. Right: with the last layers replaced by "
        "the base model's; the embeddings stay those of the tuned model, so the last point need not be the base's.",
    )
    page.figure(figures.perplexity(run), "figure3", "Perplexity during tuning, and with layers replaced")
    _perplexities(page, run)


def _head(page: Page, run: StudyRun) -> None:
    corpora = run.tables.lock["corpora"]
    sizes = {name: corpora[name]["splits"]["train"]["sentences"] for name in TUNED}
    probed = {
        name: sum(corpora[f"{source}_{name}"]["splits"]["test"]["sentences"] for source in CORPORA) for name in PROBED
    }
    page.text(
        "# Sentence-level knowledge, attention and the language model of MiniLM (after Mosbach et al. 2020)",
        "MiniLM is tuned on CoLA, SST-2, RTE and SQuAD, three runs each (the paper has five), and probed for shifted "
        "bigrams, inverted coordinations and odd words, sentence by sentence and layer by layer, with [CLS] and with "
        "the mean of all tokens; then its attention and its perplexity are measured. The study file is "
        "[study.yaml](study.yaml).",
        "The paper studies BERT, RoBERTa and ALBERT, tuned on whole training sets, with the probing sets of SentEval. "
        "Here is one small model, all-MiniLM-L6-v2, itself tuned for sentence similarity before we tune it; training "
        "sets of "
        + listing([f"{size:,} ({TUNED[name]})" for name, size in sizes.items()])
        + " examples; probing sets made from the treebanks EWT and GUM, which are small: "
        + listing([f"{size:,} held-out sentences ({PROBED[name]})" for name, size in probed.items()])
        + ". The head that tells masked tokens was fitted on the frozen base model and is weaker than a pre-trained "
        "one. Nothing below is about the paper's models.",
    )
    lines = []
    for name, measures in SCORES.items():
        copies = run.tables.lock["models"][name]
        for measure, title in measures:
            values = [100 * copy["curve"][-1][f"dev_{measure}"] for copy in copies]
            lines.append([title, f"{np.mean(values):.1f} ({min(values):.1f} to {max(values):.1f})"])
    page.table(["task", "on dev: mean of the runs (their range)"], lines, "Table 1: the tuned models")
    page.text(*unlearnt(run, TUNED))


def _groups(page: Page, changes: Changes, number: int, tasks: tuple[str, ...]) -> None:
    lines = []
    for source, title in CORPORA.items():
        for probed, name in PROBED.items():
            cells = [
                f"{100 * row.difference:+.2f}{'*' if row.low > 0 or row.high < 0 else ''}"
                for pooling in POOLINGS
                for tuned in tasks
                for row in changes.groups(source, probed, tuned, pooling).itertuples()
            ]
            lines.append([f"{name} ({title})", *cells])
    groups = list(changes.groups("ewt", "bigram_shift", tasks[0], "cls")["group"])
    head = [f"{pooling}, {TUNED[task]}, {group}" for pooling in POOLINGS.values() for task in tasks for group in groups]
    caption = f"Table {number}: change of accuracy in points, averaged over layers"
    page.table(["", *head], lines, caption)


def _probing_claims(run: StudyRun, changes: Changes) -> Iterator[Claim]:
    yield _mean_above_cls(changes)
    yield _upper_layers(changes)
    yield _cola_on_bigrams(changes)
    yield _not_beyond_mean(changes)
    yield _losses(changes, "sst2")
    yield _losses(changes, "squad")


def _verdict(holds: list[bool]) -> bool | None:
    """All: yes; most: cannot be told; otherwise no."""
    return True if all(holds) else None if np.mean(holds) > 0.5 else False


def _mean_above_cls(changes: Changes) -> Claim:
    gaps = {}
    for source in CORPORA:
        for probed in PROBED:
            cls, mean = (changes.accuracy(source, probed, "base", pooling) for pooling in POOLINGS)
            gaps[source, probed] = float((mean - cls)[1:].mean())
    return Claim(
        "Probes of the mean of all tokens do better than probes of [CLS], on every task.",
        _verdict([gap > 0 for gap in gaps.values()]),
        "Base model, mean minus [CLS] over layers 1 and up: "
        + ", ".join(f"{PROBED[p]} ({CORPORA[s]}) {100 * gap:+.1f}" for (s, p), gap in gaps.items())
        + " points.",
    )


def _upper_layers(changes: Changes) -> Claim:
    sizes = {}
    for pooling in POOLINGS:
        moved = [
            changes.groups(source, probed, tuned, pooling)["difference"].abs().to_numpy()
            for source in CORPORA
            for probed in PROBED
            for tuned in TUNED
        ]
        sizes[pooling] = np.mean(moved, axis=0)
    return Claim(
        "Tuning changes mostly the higher layers, up and down.",
        _verdict([bool(upper > lower) for lower, upper in sizes.values()]),
        "Mean size of the changes, lower and upper layers: "
        + "; ".join(f"{POOLINGS[p]} {100 * low:.2f} and {100 * up:.2f} points" for p, (low, up) in sizes.items())
        + ".",
    )


def _upper(changes: Changes, source: str, probed: str, tuned: str, pooling: str) -> pd.Series:
    return changes.groups(source, probed, tuned, pooling).iloc[-1]


def _told(row: pd.Series) -> str:
    return f"{100 * row['difference']:+.1f} ({100 * row['low']:+.1f} to {100 * row['high']:+.1f})"


def _cola_on_bigrams(changes: Changes) -> Claim:
    rows = {(s, p): _upper(changes, s, "bigram_shift", "cola", p) for s in CORPORA for p in POOLINGS}
    gains = [rows[s, "cls"]["low"] > 0 and rows[s, "cls"]["difference"] > rows[s, "sentence_mean"]["difference"]
             for s in CORPORA]  # fmt: skip
    return Claim(
        "Tuned on CoLA, upper layers tell shifted bigrams better with [CLS], and hardly so with the mean.",
        _verdict([bool(gain) for gain in gains]),
        "Upper layers: "
        + "; ".join(f"{CORPORA[s]}, {POOLINGS[p]} {_told(row)}" for (s, p), row in rows.items())
        + " points.",
    )


def _not_beyond_mean(changes: Changes) -> Claim:
    beyond, total = [], 0
    for source in CORPORA:
        for probed in PROBED:
            for tuned in TUNED:
                crossed = changes.beyond_mean(source, probed, tuned)
                total += len(crossed)
                beyond += [(source, probed, tuned)] * int((crossed["low"] > 0).sum())
    return Claim(
        "What [CLS] gains does not pass what the mean of the base model had, but in very few cases.",
        len(beyond) <= 0.05 * total,
        f"Tuned [CLS] is shown to be above the base model's mean in {len(beyond)} of {total} cases (layers, tasks, "
        "models).",
    )


def _losses(changes: Changes, tuned: str) -> Claim:
    rows = {
        (s, t, p): _upper(changes, s, t, tuned, p)
        for s in CORPORA for t in ("bigram_shift", "odd_man_out") for p in POOLINGS
    }  # fmt: skip
    shown = sum(row["high"] < 0 for row in rows.values())
    return Claim(
        f"Tuning on {TUNED[tuned]} costs accuracy on shifted bigrams and odd words, with both poolings.",
        _verdict([bool(row["difference"] < 0) for row in rows.values()]),
        f"Upper layers fall in {sum(row['difference'] < 0 for row in rows.values())} of {len(rows)} cases, shown in "
        f"{shown}: "
        + "; ".join(f"{PROBED[t]} ({CORPORA[s]}), {POOLINGS[p]} {_told(row)}" for (s, t, p), row in rows.items())
        + ".",
    )


def _attention_claims(run: StudyRun) -> Iterator[Claim]:
    found = pick(run.results, analysis="attention", head=None)
    depth = int(found["layer"].max())
    upper = range(depth // 2 + 1, depth + 1)

    def mean(model: str, metric: str) -> float:
        return float(np.mean([one(found, metric, model=model, layer=layer) for layer in upper]))

    def runs(model: str, metric: str) -> list[float]:
        rows = pick(found, metric=metric, model=model)
        return list(rows[rows["layer"].isin(upper)].groupby("tune_seed")["value"].mean())

    rise = {model: mean(model, "entropy_change") for model in ("cola", "cola_mean")}
    moved = {model: mean(model, "emd") for model in ("cola", "cola_mean")}
    by_layer = [one(found, "emd", model="cola", layer=layer) for layer in range(1, depth + 1)]
    last = {model: one(found, "entropy_change", model=model, layer=depth) for model in rise}
    yield Claim(
        "Tuned on CoLA by [CLS], the attention of [CLS] becomes wider in the last layers; tuned by the mean it "
        "changes little, and narrows in the last layer.",
        rise["cola"] > 0 and abs(rise["cola_mean"]) < rise["cola"],
        f"Upper half, change of entropy: {rise['cola']:+.3f} nats tuned by [CLS], {rise['cola_mean']:+.3f} by the "
        f"mean; last layer {last['cola']:+.3f} and {last['cola_mean']:+.3f}.",
    )
    order = float(stats.spearmanr(range(depth), by_layer).statistic)
    yield Claim(
        "Attention moves more the higher the layer.",
        True if order > 0.8 else None if order > 0 else False,
        f"Earth mover's distance by layer, tuned by [CLS]: {', '.join(f'{value:.2f}' for value in by_layer)} tokens; "
        f"rank correlation with the layer {order:.2f}.",
    )
    each = {model: runs(model, "emd") for model in moved}
    yield Claim(
        "It moves more when tuned by [CLS] than by the mean.",
        apart(each["cola"], each["cola_mean"]),
        "Earth mover's distance in the upper half, mean of the runs (their range): "
        + ", ".join(
            f"{moved[model]:.2f} ({min(each[model]):.2f} to {max(each[model]):.2f}) by {title}"
            for model, title in (("cola", "[CLS]"), ("cola_mean", "the mean"))
        )
        + ".",
    )


def _perplexity_claims(run: StudyRun) -> Iterator[Claim]:
    table = figures.perplexities(run)
    during = table[table["part"] == "during"].groupby(["model", "x"])["value"].mean()
    replaced = table[table["part"] == "replaced"].groupby(["model", "x"])["value"].mean()
    base = float(during.xs(0, level="x").iloc[0])
    ends = {model: float(during[model].iloc[-1]) for model in ("CoLA", "SST-2")}
    yield Claim(
        "Perplexity rises with fine-tuning.",
        all(value > base for value in ends.values()),
        f"Base {base:.0f}; after tuning {', '.join(f'{value:.0f} ({model})' for model, value in ends.items())}.",
    )
    last = table[(table["part"] == "replaced") & (table["x"] == 0)].groupby("model")["value"].apply(list)
    yield Claim(
        "It rises more on SST-2 than on CoLA.",
        apart(last["SST-2"], last["CoLA"]),
        "Range of the runs: "
        + ", ".join(f"{min(last[model]):.0f} to {max(last[model]):.0f} ({model})" for model in ends)
        + ". Training sets and numbers of steps differ: CoLA is seen three times, SST-2 once.",
    )
    told, holds = [], []
    for model in ("CoLA", "SST-2"):
        values = replaced[model].to_numpy()
        half = len(values) // 2
        undone = (np.log(values[0]) - np.log(values[half])) / (np.log(values[0]) - np.log(values[-1]))
        holds.append(True if undone > 2 / 3 else None if undone > 0.5 else False)
        told.append(f"{100 * undone:.0f} % ({model})")
    yield Claim(
        "The change is in the last layers.",
        None if len(set(holds)) > 1 else holds[0],
        f"Replacing the upper half of the layers undoes {listing(told)} of what replacing all of them undoes (of the "
        "loss in nats).",
    )


def _text_read(run: StudyRun) -> str:
    """How much of the test part."""
    row = pick(run.results, analysis="perplexity", model="base", metric="block_tokens").iloc[0]
    size = int(row["value"])
    read = f"the first {int(row['n']) * size:,} tokens of its test part"
    return f"{read}, in blocks of {size} like those the head was fitted on"


def _perplexities(page: Page, run: StudyRun) -> None:
    table = figures.perplexities(run)
    lines = []
    for part, title in (("during", "after step {}"), ("replaced", "last {} replaced")):
        mine = table[table["part"] == part]
        for x in sorted(mine["x"].unique()):
            cells = []
            for model in ("CoLA", "SST-2"):
                values = mine[(mine["model"] == model) & (mine["x"] == x)]["value"]
                cells.append(f"{values.mean():.1f} ± {values.std():.1f}" if len(values) > 1 else
                             f"{values.iloc[0]:.1f}" if len(values) else "")  # fmt: skip
            lines.append([title.format(x), *cells])
    page.table(["", "tuned on CoLA", "tuned on SST-2"], lines, "Perplexity, mean ± standard deviation over runs")


if __name__ == "__main__":
    command(__file__, build, items_of=["sentence_probe"])
