"""What a tuned model loses of its own task when a property is erased from one of its layers."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from vestige.analyses.base import Outcome
from vestige.analyses.tuning import lacks_other_measures
from vestige.corpus.types import Task
from vestige.errors import AnalysisError
from vestige.finetune.model import Tunable, load_tuned
from vestige.finetune.score import score
from vestige.measures.erasure import Variant, leace, variants
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.surgery.erasing import check_erasing, erasing
from vestige.progress import bar
from vestige.representations.words import word_states

Pooling = Literal["first", "last", "mean"]
"""Of a word's tokens; each gives of erased tokens the erased word."""


def erase_and_score(
    tuned: Any,
    known: Task,
    task: Task,
    layers: Sequence[int] | None = None,
    *,
    split: str = "dev",
    pooling: Pooling = "last",
    draws: int = 1,
    seed: int = 0,
    device: str = "cpu",
) -> Outcome:
    """What a tuned model loses of its own `task` when the property `known` is erased from one of its layers.

    `tuned` is a folder that `finetune` made, a `Tuned`, or what `load_tuned` gave; `known` is a token
    task, on whose train words the erasers are fitted. Rows are those of `Erasure`: the task's measures
    as `task_...`, `rank` and `change`, by layer and by subset.
    """
    if known.level != "token":
        raise AnalysisError(f"{known.name!r} labels each {known.level}, not each word", fix="erase a token task")
    if pooling not in get_args(Pooling):
        raise AnalysisError(f"pooling {pooling!r} of words", fix=f"use {', '.join(get_args(Pooling))}")
    model = tuned if isinstance(tuned, Tunable) else load_tuned(getattr(tuned, "folder", tuned), device)
    encoder = erasable(model.encoder, model.encoder.name)
    wanted = chosen_layers(layers, encoder)
    sentences = known.corpus["train"]
    model.eval()
    encoded = encoder.encode(sentences)
    index = np.array([(number, word) for number, e in enumerate(encoded) for word in range(e.kept)])
    rows = word_states(encoder, sentences, wanted, pooling, index)
    gold = known.labels("train")
    labels = np.unique([gold[s][w] for s, w in index], return_inverse=True)[1]
    outcome = Outcome()
    for layer in wanted:
        check_erasing(encoder, layer, encoded[0])
    erasers = {layer: fitted_erasers(rows[layer], labels, layer, draws, seed, outcome) for layer in wanted}
    score_erased(model, task, split, erasers, outcome, encoder.name)
    return outcome


def fitted_erasers(
    rows: np.ndarray, labels: np.ndarray, layer: int, draws: int, seed: int, outcome: Outcome
) -> list[Variant]:
    """The erasers of a layer, fitted on its rows; how many directions they take, and how much of the variance."""
    found = leace(rows, labels, int(labels.max()) + 1)
    outcome.add("rank", found.rank, layer=layer)
    made = list(variants(found, draws, seed))
    for one in made:
        outcome.add("change", one.change(rows), layer=layer, **one.where)
    return made


def score_erased(
    model: Tunable, task: Task, split: str, erasers: Mapping[int, Sequence[Variant]], outcome: Outcome, name: str
) -> None:
    """The measures of a tuned model's task with every eraser in it, and that of always the same answer."""
    plain = score(model, task, split)
    primary = model.problem.primary
    lacks_other_measures(outcome, plain.metrics, "task_")
    if (always := plain.metrics[primary].majority) is not None:
        outcome.add("task_majority", always, subset=primary, n=len(plain.ids))
    else:
        outcome.absent["task_majority"] = "the corpus has no train split"
    with bar(f"{task.name} of {name}, erased", sum(len(each) for each in erasers.values())) as shown:
        for layer, one in ((layer, one) for layer, each in erasers.items() for one in each):
            with erasing(model.encoder, layer, one.eraser):
                found = plain if one.eraser is None else score(model, task, split, majority=False)
            where = {"layer": layer, "n": len(found.ids), **one.where}
            for name in sorted(found.metrics, key=lambda name: name != primary):
                value, low, high, _ = found.metrics[name]
                outcome.add(f"task_{name}", value, low=low, high=high, **where)
            shown.advance()


def erasable(encoder: object, name: str) -> HuggingFaceEncoder:
    """The encoder, if hooks can be put into it."""
    if not isinstance(encoder, HuggingFaceEncoder):
        what = "the model itself is missing" if encoder is None else "it is no Hugging Face model"
        raise AnalysisError(f"{name}: {what}, so nothing can be erased in it", fix="leave erasure out for this model")
    return encoder


def chosen_layers(wanted: Sequence[int] | None, encoder: HuggingFaceEncoder) -> list[int]:
    """The layers asked for, or all."""
    unknown = [layer for layer in wanted or () if not 0 <= layer <= encoder.depth]
    if unknown:
        raise AnalysisError(
            f"{encoder.name} has layers 0 to {encoder.depth}, asked for {unknown[0]}", fix="name layers it has"
        )
    return list(range(encoder.depth + 1)) if wanted is None else list(wanted)
