"""What analyses count of what they could not use: declared once, reported among the limits of a study."""

from vestige.analyses.metric import LAYER, WHOLE, Metric
from vestige.probes.problem import OUTLIER


def remark(name: str, title: str, sentence: str, *, about: str = "") -> Metric:
    """A count of items, one for the model or one a split and reason; the sentence is said where it is above 0."""
    return Metric(name, title, "count", decimals=0, along=(WHOLE,), role="remark", remark=sentence, about=about)


def count(name: str, title: str, about: str = "") -> Metric:
    """A count, one for the model, for those who ask."""
    return Metric(name, title, "count", decimals=0, along=(WHOLE,), role="detail", about=about)


TRUNCATED = remark(
    "truncated_words",
    "truncated words",
    "{value} of {n} words were cut off because their sentence is longer than the model reads",
)
VANISHED = remark("vanished_words", "vanished words", "{value} of {n} words have no sub-word of their own")
SINKS = count(
    "sink_words", "words of an attention sink", "Words whose only token is an attention sink that is left out."
)
UNKNOWN = count("unknown_tokens", "unknown tokens", "Tokens that the tokenizer does not know.")
LOST = (TRUNCATED, VANISHED, SINKS, UNKNOWN)
"""What `vestige.representations.store.lost_words` counts."""

UNSEEN = remark(
    "unseen_labels", "unseen labels", "{value} of {n} labels of {split} do not occur in train; no probe can give them"
)
OF_TARGETS = (
    remark("left_out_targets", "targets left out", "{value} of {n} targets of {split} are left out: {subset}"),
    remark(
        "shortened_targets",
        "shortened targets",
        "{value} of {n} targets of {split} lost some of their words, for which the model has no room",
    ),
)
TARGETS = (*OF_TARGETS, UNSEEN)
"""What `vestige.probes.edges.targets` counts."""

OUTLIERS = Metric(
    "outlier_units", "outlier units", "count", decimals=0, along=(LAYER,), role="remark",
    remark=f"{{model}} has up to {{value}} outlier units at {{layers}}, more than {OUTLIER:g} times as large as the "
    "median unit; converged probes read them shrunk to that size (scale: unit brings all units to one size)",
)  # fmt: skip
