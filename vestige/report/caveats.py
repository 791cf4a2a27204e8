"""What the numbers do not say: one line for each thing a reader has to know before quoting them."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from vestige.analyses.failed_probe import FAR
from vestige.comparison.differences import LEAST_SENTENCES, Settings
from vestige.comparison.failed import FAILED
from vestige.probes.problem import OUTLIER
from vestige.report.neuron_rows import ANALYSIS, FURTHER_ANALYSES, STABLE, TOP
from vestige.report.warnings import OVERLAP, overlaps
from vestige.report.wording import be, count, layers, listing, threshold

FALLING = 0.02
"""A variational code that fell by more in the last tenth of training is not one that was found."""


def caveats(
    results: pd.DataFrame, comparisons: pd.DataFrame, lock: Mapping[str, Any], runs: Mapping[str, int]
) -> list[str]:
    """Limits of this study: `runs` of every tuned model, models, sample, what was lost and left out."""
    return [
        *_failed(lock),
        *lock.get("unpaired", []),
        *_runs(runs),
        *_neurons(results),
        *_sources(lock),
        *_sample(lock),
        *(f"{told}." for told, share in overlaps(results, lock) if share <= OVERLAP),
        *_sinks(lock),
        *_outlier_units(results),
        *_lost(results),
        *_unpaired(comparisons),
        *_few_items(results),
        *_undefined(results),
        *_unseen_labels(results),
        *_unsent(results),
        *_unfinished_codes(results),
        *_unscored(results),
    ]


def glossary(settings: Settings, runs: int, described: bool = False, failed: bool = False) -> list[tuple[str, str]]:
    """The terms of the statistics, a line each; whether some differences have no test, or a probe failed."""
    margin = threshold(settings.margin)
    told = f"from {count(settings.resamples)} resamplings of test sentences"
    chance = "how often a difference as large arises when whole sentences swap base and tuned at random"
    sources = "seeds of a probe whose training depends on them" + (", and fine-tuning runs" if runs > 1 else "")
    told += f"; where there are further sources of error ({sources}), Student's, from the variance of all sources"
    chance += "; with further sources of error, by the test that belongs to the interval"
    return [
        (f"{100 * settings.confidence:g} % interval", f"{told}; it does not cover other training data."),
        ("p", f"{chance}."),
        ("q", "p corrected for testing many layers, tasks and models (Benjamini-Hochberg)."),
        (
            "lower, higher",
            f"q is at most {settings.alpha:g}, and the difference is not shown to lie within \u00b1{margin}.",
        ),
        (
            "unchanged",
            f"shown to lie within \u00b1{margin} (two one-sided tests at {settings.alpha:g}, corrected as q is); "
            "more than 'no difference found'. A significant difference may be that small.",
        ),
        ("undecided", f"neither shown to differ nor shown to lie within \u00b1{margin}: more data would be needed."),
        *([_DESCRIBED] if described else []),
        *([_FAILED_PROBE] if failed else []),
        ("selectivity", "accuracy minus accuracy on a control task, in which every word type has a random label."),
    ]


_DESCRIBED = (
    "described",
    "a difference without a test, of which nothing is claimed: another seed may train another probe, and there is one; "
    f"or fewer than {LEAST_SENTENCES} sentences are scored.",
)


_FAILED_PROBE = (
    FAILED,
    "its accuracy is far below what word types alone give, or it learnt next to nothing on train, and a check (a "
    f"linear probe with a ridge a thousand times weaker) reads at least {threshold(FAR)} more of dev from the same "
    "hidden states: nothing is claimed.",
)


def _failed(lock: Mapping[str, Any]) -> list[str]:
    """Cells that did not finish, each with its error."""
    lines = []
    for cell in lock.get("failed", []):
        run = f", run {cell['run']}" if cell["run"] else ""
        where = f"{cell['analysis']} of {cell['corpus']}/{cell['task']}, model {cell['model']}{run}"
        lines.append(f"Failed, and missing from this page: {where} ({cell['problem']}).")
    return lines


def _runs(runs: Mapping[str, int]) -> list[str]:
    single = [model for model, number in runs.items() if number == 1]
    several: dict[int, list[str]] = {}
    for model, number in runs.items():
        if number > 1:
            several.setdefault(number, []).append(model)
    lines = []
    if single:
        what = "this checkpoint" if len(single) == 1 else "these checkpoints"
        lines.append(
            f"One tuned run supports findings about {what} ({listing(single)}) only, "
            "not about fine-tuning on that task in general."
        )
    return [
        *lines,
        *(
            f"{listing(models)}: {number} fine-tuning runs{' each' * (len(models) > 1)}, averaged; intervals cover the "
            "runs too."
            for number, models in several.items()
        ),
    ]


def _neurons(results: pd.DataFrame) -> list[str]:
    if "analysis" not in results or not results["analysis"].isin([ANALYSIS, *FURTHER_ANALYSES]).any():
        return []
    return [
        "How few neurons are enough, and in which layers they are, has no interval: with other sentences other "
        "neurons may be chosen, for many of them tell much the same.",
        *_shaky_rankings(results),
    ]


def _shaky_rankings(results: pd.DataFrame) -> list[str]:
    """Rankings of which a re-fit has too little in common; of every task the worst."""
    rows = results[(results["metric"] == "ranking_overlap") & (results["axis"] == "share") & (results["x"] == TOP)]
    rows = rows[rows["value"] < STABLE]
    return [
        f"{corpus}/{task}: a re-fit of the probe that ranks neurons has as little as {100 * part['value'].min():.0f} % "
        f"of the top {100 * TOP:g} % in common ({listing(list(part['model'].unique()))}): single neurons, spreads and "
        "minimal sets are in part the solver's choice."
        for (corpus, task), part in rows.groupby(["corpus", "task"], sort=False)
    ]


def _sources(lock: Mapping[str, Any]) -> list[str]:
    found = [
        name
        for name, copies in lock.get("models", {}).items()
        if any(str(copy.get("source", "")).lower() == "minilm" for copy in copies)
    ]
    if not found:
        return []
    return [
        f"{listing(found)} {'is' if len(found) == 1 else 'are'} MiniLM (all-MiniLM-L6-v2), which is itself tuned for "
        "sentence similarity: "
        "it is no plain pre-trained model, and nothing here is about other models."
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


def _outlier_units(results: pd.DataFrame) -> list[str]:
    """Layers with huge units, by model; of several analyses and tasks the most units."""
    rows = results[results["metric"] == "outlier_units"]
    lines = []
    for model, part in rows.groupby("model", sort=False):
        most = part.groupby(part["layer"].astype(int))["value"].max().astype(int)
        number = f"{count(most.min())} to {count(most.max())}" if most.min() < most.max() else count(most.max())
        lines.append(
            f"{model}: {layers(most.index)} {be(list(most.index))} dominated by {number} outlier unit"
            f"{'s' * int(most.max() > 1)}, more than {OUTLIER:g} times as large as the median unit; converged probes "
            "read them shrunk to that size (scale: unit brings all units to one size)."
        )
    return lines


def _few_items(results: pd.DataFrame) -> list[str]:
    rows = results[(results["metric"] == "items_per_unit") & (results["value"] < 1)]
    return [
        f"{corpus}: with fewer words than units ({count(of_corpus['n'].iloc[0])} words), svcca, pwcca, procrustes and "
        "cka_biased are high even between unrelated vectors; rsa and cka are not."
        for corpus, of_corpus in rows.groupby("corpus", sort=False)
    ]


def _unseen_labels(results: pd.DataFrame) -> list[str]:
    rows = results[(results["metric"] == "unseen_labels") & (results["value"] > 0)]
    rows = rows.drop_duplicates(["corpus", "task", "subset"])
    return [
        f"{r.corpus}/{r.task}: {count(r.value)} of {count(r.n)} labels of {r.subset} do not occur in train; no probe "
        "can give them."
        for r in rows.itertuples(index=False)
    ]


def _unfinished_codes(results: pd.DataFrame) -> list[str]:
    rows = results[(results["metric"] == "still_falling") & (results["value"] > FALLING)]
    most = rows.groupby(["corpus", "task"], sort=False)["value"].max()
    return [
        f"{corpus}/{task}: variational codes still got shorter by up to {100 * value:.0f} % in the last tenth of "
        "training; raise least_steps before comparing them."
        for (corpus, task), value in most.items()
    ]


def _unscored(results: pd.DataFrame) -> list[str]:
    rows = results[results["metric"] == "own_task_left_out"].drop_duplicates(["model", "subset"])
    return [f"{r.model} is not scored on its own task: {r.subset}." for r in rows.itertuples(index=False)]


_LOST = {
    "truncated_words": "words were cut off because their sentence is longer than the model reads",
    "vanished_words": "words have no sub-word of their own",
    "unseen_label_words": "words of the scored split carry a label that train lacks, and count as wrong",
    "left_out_pairs": "minimal pairs do not fit the model's limit and are left out",
    "left_out_targets": "targets are left out",
    "shortened_targets": "targets lost some of their words, for which the model has no room",
    "left_out_sentences": "sentences are left out",
    "unmatched_words": "words of the model have no partner in its reference and are left out",
    "unmatched_words_of_reference": "words of the reference have no partner in the model and are left out",
}
"""What analyses count of what they could not use: so many of n."""

_UNDEFINED = "_undefined"


def _lost(results: pd.DataFrame) -> list[str]:
    """Of every task and reason the model that lost the most."""
    lines = []
    for metric, what in _LOST.items():
        rows = results[(results["metric"] == metric) & (results["value"] > 0)]
        for (corpus, task, where), part in rows.groupby(["corpus", "task", "subset"], sort=False, dropna=False):
            most = part.iloc[part["value"].to_numpy(dtype=float).argmax()]
            where = "" if pd.isna(where) else f" ({where})"
            lines.append(f"{corpus}/{task}: {count(most['value'])} of {count(most['n'])} {what}{where}.")
    return lines


def _unsent(results: pd.DataFrame) -> list[str]:
    """Blocks of an online code for which no probe could be trained, or that are too small to be one."""
    rows = results[(results["metric"] == "untrained_blocks") & (results["value"] > 0)]
    lines = [
        f"{corpus}/{task}: up to {count(part['value'].max())} of {count(part['n'].max())} blocks were sent by the "
        "uniform code, as the labels before them are all alike."
        for (corpus, task), part in rows.groupby(["corpus", "task"], sort=False)
    ]
    rows = results[(results["metric"] == "dropped_fractions") & (results["value"] > 0)]
    small = [
        f"{corpus}/{task}: {count(part['value'].max())} of {count(part['n'].max())}"
        for (corpus, task), part in rows.groupby(["corpus", "task"], sort=False)
    ]
    if small:
        lines.append(f"Blocks with too few labels to train a probe on are sent with the next ({listing(small)}).")
    return lines


def _undefined(results: pd.DataFrame) -> list[str]:
    rows = results[results["metric"].str.endswith(_UNDEFINED) & (results["value"] > 0)]
    lines = []
    for (corpus, model, metric), part in rows.groupby(["corpus", "model", "metric"], sort=False):
        layers = listing([f"{layer}" for layer in sorted(part["layer"].astype(int).unique())])
        name = str(metric).removesuffix(_UNDEFINED)
        lines.append(f"{corpus}: {name} of {model} is not defined at layer {layers}, where vectors do not differ.")
    return lines


def _unpaired(comparisons: pd.DataFrame) -> list[str]:
    """Items that were scored of one model only; by task, of the model that lacks the most."""
    if "dropped_items" not in comparisons:
        return []
    rows = comparisons[comparisons["dropped_items"] > 0]
    return [
        f"{corpus}/{task}: up to {count(part['dropped_items'].max())} scored items had no partner in the other model "
        "and are left out of comparisons."
        for (corpus, task), part in rows.groupby(["corpus", "task"], sort=False)
    ]
