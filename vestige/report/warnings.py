"""What must be read before any finding: too few sentences, test sentences that were trained on, tokens unknown to a
model, words cut differently, probes that failed."""

from collections.abc import Iterator, Mapping
from typing import Any

from vestige.comparison.differences import LEAST_SENTENCES
from vestige.report import numbers
from vestige.report.reading import Reading
from vestige.report.wording import count, layers, listing, percent

OVERLAP = 0.1
"""A larger share of scored sentences that train has, too, is reported before any finding; a smaller one among the
limits. Short sentences ('Thank you .') recur in any corpus: 3 to 5 % of the test sentences of EWT and GUM do."""

UNKNOWN = 0.01
"""A larger share of unknown tokens is reported before any finding."""


def warnings(reading: Reading) -> list[str]:
    """One line each; none in most studies."""
    return [
        *_few_sentences(reading),
        *_trained_on(reading),
        *_failed_probes(reading),
        *_unknown(reading.lock),
        *_cut_unlike(reading.lock),
        *_other_tokenizers(reading.lock),
    ]


def overlaps(reading: Reading) -> Iterator[tuple[str, float]]:
    """Of every scored split that shares sentences with train: how many, in words, and their share."""
    for where, facts in _scored(reading):
        if shared := facts.get("in_train", 0):
            share = shared / facts["sentences"]
            text = f"{count(shared)} of {count(facts['sentences'])} sentences ({percent(share)} %)"
            yield f"{where}: {text} are sentences of train, too, word by word", share


def _scored(reading: Reading) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What is known of every split that some analysis scored."""
    if "split" not in reading.results:
        return
    counts = {one.name for own in reading.declared.values() for one in own.metrics.values() if one.role == "remark"}
    rows = reading.results[~reading.results["metric"].isin(counts)]
    for corpus, split in rows[["corpus", "split"]].dropna().drop_duplicates().itertuples(index=False):
        facts = reading.lock.get("corpora", {}).get(corpus, {}).get("splits", {}).get(split)
        if facts:
            yield f"{corpus}/{split}", facts


def _few_sentences(reading: Reading) -> Iterator[str]:
    for where, facts in _scored(reading):
        if facts["sentences"] < LEAST_SENTENCES:
            yield (
                f"{where} has {count(facts['sentences'])} sentence{'s' * (facts['sentences'] != 1)}, fewer than "
                f"{LEAST_SENTENCES}: differences are described, and neither a change nor its absence is claimed."
            )


def _trained_on(reading: Reading) -> Iterator[str]:
    for text, share in overlaps(reading):
        if share > OVERLAP:
            yield f"{text}: on these a probe may only remember, and scores are too high."


def _failed_probes(reading: Reading) -> Iterator[str]:
    for params, declared in reading.declared.items():
        for metric in [one for one in declared.metrics.values() if one.role == "failure"]:
            rows = reading.results[(reading.results["params"] == params) & (reading.results["metric"] == metric.name)]
            rows = rows[(rows["value"] > 0).fillna(False)]
            for (corpus, task, model), mine in rows.groupby(["corpus", "task", "model"], sort=False):
                most = numbers.amount(metric, float(mine["value"].max()))
                yield (
                    f"{corpus}/{task}: {len(mine)} probe{'s' * (len(mine) > 1)} of {model} failed "
                    f"({layers(mine['layer'].dropna().astype(int))}; {metric.title}: up to {most}). What they show is "
                    "about the probe, not about the model: no verdict is given there."
                )


def _unknown(lock: Mapping[str, Any]) -> Iterator[str]:
    for facts in lock.get("tokens", []):
        share = facts["unknown_tokens"] / max(1, facts["word_tokens"])
        if share > UNKNOWN:
            yield (
                f"{percent(share)} % of the tokens of {facts['corpus']} ({count(facts['unknown_tokens'])} of "
                f"{count(facts['word_tokens'])}) are unknown to the tokenizer of {facts['model']}: of these words the "
                "model sees nothing."
            )


def _cut_unlike(lock: Mapping[str, Any]) -> Iterator[str]:
    for facts in lock.get("tokens", []):
        if facts.get("cut_unlike"):
            yield (
                f"{facts['model']} and {facts['cut_unlike']} cut {facts['corpus']} into different tokens: words are "
                "compared where both have them, and a difference may be one of the tokenizers."
            )


def _other_tokenizers(lock: Mapping[str, Any]) -> Iterator[str]:
    models = lock.get("spec", {}).get("models", {})
    given = {name: model["tokenizer"] for name, model in models.items() if model.get("tokenizer")}
    if given:
        what = listing([f"that of {tokenizer} for {name}" for name, tokenizer in given.items()])
        yield f"Tokenizers from elsewhere, as the study asks for: {what}."
