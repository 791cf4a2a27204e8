"""The analyses that are told by curves, each with what it measures.

An analysis that has no entry here has a default chapter, see `default_chapter`.
"""

from dataclasses import dataclass

from vestige.measures.similarity import MEASURES
from vestige.report.curves import OWN_SCORE, SCORE, Curve


@dataclass(frozen=True)
class Chapter:
    """What the page says of an analysis."""

    name: str
    title: str
    lede: str
    curves: tuple[Curve, ...]
    plain: bool = False
    """Whether all numbers that have no layer and no axis are shown, too."""


def _scores(axis: str, along: str) -> tuple[Curve, ...]:
    return (Curve(SCORE, "score of the task (%)", axis, along, "percent", 1),)


_SIMILARITIES = {
    "rsa": "RSA",
    "rsa_centred": "centred RSA",
    "rsa_spearman": "RSA of ranks",
    "rsa_euclidean": "Euclidean RSA",
    "cka": "CKA",
    "cka_biased": "biased CKA",
    "svcca": "SVCCA",
    "pwcca": "PWCCA",
}

_EXAMPLES_ONLY = "Intervals are over held-out examples; they do not cover other runs of training."

CHAPTERS = (
    Chapter(
        "freezing",
        "How deep must fine-tuning reach?",
        "The task's score on held-out examples when the embeddings and the first blocks keep their weights "
        "(\u22121: nothing is frozen). Where a score holds on to the right, the upper blocks alone can learn the task. "
        f"{_EXAMPLES_ONLY}",
        _scores("frozen blocks", "frozen blocks"),
    ),
    Chapter(
        "truncation",
        "How much depth does the task need?",
        f"The score of the model cut after its first blocks, all that is left tuned. {_EXAMPLES_ONLY}",
        _scores("kept blocks", "blocks kept"),
    ),
    Chapter(
        "pruning",
        "Which blocks can be left out?",
        "The score when blocks are dropped from the top or from the bottom before tuning; 0: the whole model. "
        f"{_EXAMPLES_ONLY}",
        _scores("dropped blocks", "blocks dropped"),
    ),
    Chapter(
        "similarity",
        "How far representations moved",
        "How alike the same inputs are in the tuned model and its reference, layer by layer: 1 says that they are "
        "the same up to what the measure leaves open (scale, rotation, or any linear map).",
        tuple(Curve(name, _SIMILARITIES.get(name, name.replace("_", " "))) for name in MEASURES),
    ),
    Chapter(
        "attention",
        "Attention",
        "How widely attention is spread (entropy) and how far fine-tuning moved it for the same sentence and head "
        "(earth mover's distance, Jensen\u2013Shannon divergence), means over heads and sentences.",
        (
            Curve("entropy", "entropy", decimals=3),
            Curve("emd", "earth mover's distance", decimals=3),
            Curve("js", "Jensen\u2013Shannon divergence", decimals=3),
        ),
    ),
    Chapter(
        "perplexity",
        "What is left of the language model",
        "Perplexity of the language-model head on the tuned encoder, with the last blocks (or one block) replaced by "
        "the reference's: where it falls, there fine-tuning had written over what the head reads.",
        (
            Curve("perplexity", "perplexity", "last_replaced", "last blocks replaced", decimals=1),
            Curve("perplexity", "perplexity", "layer_replaced", "the one block replaced", decimals=1),
        ),
    ),
    Chapter(
        "minimal_pairs",
        "Does it prefer the grammatical sentence?",
        "How often the grammatical sentence of a minimal pair is the more probable one.",
        (),
    ),
    Chapter(
        "structural_probe",
        "Syntax trees in the geometry of a layer",
        "Undirected edges recovered (UUAS), rank correlation of distances (DSpr) and of depths (NSpr), roots found.",
        (
            Curve("uuas", "UUAS (%)", unit="percent", decimals=1),
            Curve("dspr", "DSpr", decimals=3),
            Curve("nspr", "NSpr", decimals=3),
            Curve("root_accuracy", "roots (%)", unit="percent", decimals=1),
        ),
    ),
    Chapter(
        "description_length",
        "How easily it is read out",
        "Bits needed to send the labels to somebody who has the representations; compression is against a code that "
        "knows only how many labels there are. Shorter is easier.",
        (
            Curve("bits_per_label", "bits per label", decimals=3),
            Curve("compression", "compression", decimals=2),
            Curve("saved", "what is saved of the uniform code (%)", unit="percent", decimals=1),
            Curve("control_bits_per_label", "bits per control label", decimals=3),
        ),
    ),
    Chapter(
        "erasure",
        "Is it still used?",
        "The property is erased from one layer (LEACE), and what follows is measured: the task that the model was "
        "tuned on, the language model, a probe at that layer and one at the last layer. Beside it, as many random "
        "directions erased.",
        (
            Curve(OWN_SCORE, "score of its own task (%)", unit="percent", decimals=1),
            Curve("accuracy", "probe at the layer (%)", unit="percent", decimals=1),
            Curve("last_accuracy", "probe at the last layer (%)", unit="percent", decimals=1),
            Curve("perplexity", "perplexity", decimals=1),
        ),
    ),
    Chapter(
        "edge_probe",
        "Edge probes",
        "Micro-averaged F1 of probes that see the vectors of one or two spans only, by the layer that they read.",
        (
            Curve("f1_micro", "F1 (%)", unit="percent", decimals=1),
            Curve("f1_micro", "F1 (%)", "last layer mixed", "last layer of the mix", "percent", 1),
            Curve("mix_weight", "weight in the mix", decimals=3),
        ),
    ),
)
