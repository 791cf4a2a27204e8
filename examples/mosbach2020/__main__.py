"""The page of this example: `python -m examples.mosbach2020 RUN` keeps the tables of a run and writes it."""

from typing import Any

import numpy as np

from examples.mosbach2020 import claims, figures
from examples.mosbach2020.changes import CORPORA, POOLINGS, PROBED, TUNED, Changes
from examples.page import Page, command, pick, unlearnt
from vestige.report.wording import listing
from vestige.study.finished import StudyRun

SCORES = {
    "cola": [("matthews", "CoLA, Matthews")],
    "sst2": [("accuracy", "SST-2, accuracy")],
    "rte": [("accuracy", "RTE, accuracy")],
    "squad": [("exact_match", "SQuAD, exact match"), ("f1", "SQuAD, F1")],
}


def build(page: Page) -> None:
    """The whole page."""
    run = page.run
    changes = Changes(run)
    _head(page, run)
    page.claims([*claims.probing(changes), *claims.attention(run), *claims.perplexity(run)])
    page.text("## Probing the base model (Figure 1)")
    page.figure(figures.base_accuracy(changes), "figure1", "Probe accuracy of the base model by layer and pooling")
    page.text("## How tuning changes what probes find")
    for number, tasks in ((2, ("cola", "sst2")), (5, ("rte", "squad"))):
        _groups(page, changes, number, tasks)
    page.text(
        "\\* the 95 % interval over sentences and runs leaves out zero; nothing is corrected for the many "
        "cells of these tables. Figure 4: change with [CLS], with a dot where a layer's interval leaves out zero; the "
        "diamonds are "
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
        "How the probing sets were made (EWT; GUM alike): "
        + "; ".join(_made(corpora[f"ewt_{name}"]) for name in PROBED)
        + ".",
    )
    lines = []
    for name, measures in SCORES.items():
        copies = run.tables.lock["models"][name]
        for measure, title in measures:
            values = [100 * copy["curve"][-1][f"dev_{measure}"] for copy in copies]
            lines.append([title, f"{np.mean(values):.1f} ({min(values):.1f} to {max(values):.1f})"])
    page.table(["task", "on dev: mean of the runs (their range)"], lines, "Table 1: the tuned models")
    page.text(*unlearnt(run, TUNED))


def _made(corpus: dict[str, Any]) -> str:
    """The rule of a derived task, as the study noted it."""
    (note,) = (note for note in corpus["notes"] if note.startswith("derived: "))
    return str(note).removeprefix("derived: ").replace("_", " ")


def _groups(page: Page, changes: Changes, number: int, tasks: tuple[str, ...]) -> None:
    lines = []
    for source, title in CORPORA.items():
        for probed, name in PROBED.items():
            cells = [
                f"{round(100 * row.difference, 9):+.2f}{'*' if row.low > 0 or row.high < 0 else ''}"
                for pooling in POOLINGS
                for tuned in tasks
                for row in changes.groups(source, probed, tuned, pooling).itertuples()
            ]
            lines.append([f"{name} ({title})", *cells])
    groups = list(changes.groups("ewt", "bigram_shift", tasks[0], "cls")["group"])
    head = [f"{pooling}, {TUNED[task]}, {group}" for pooling in POOLINGS.values() for task in tasks for group in groups]
    caption = f"Table {number}: change of accuracy in points, averaged over layers"
    page.table(["", *head], lines, caption)


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
