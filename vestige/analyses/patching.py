"""Patching: where does what fine-tuning changed sit, causally?

Activations of the base model are put into the run of the tuned one, and the other way round, at the output of a
block, of its attention or of its MLP; or a block itself is taken from the other model. What of the change of a score
is then still there is R = (patched - base) / (tuned - base): 1 as tuned, 0 as the base. The same is asked of weights
on the straight line between both models. Replacing the last k of L blocks, as `perplexity` does, is to put the tuned
model's output of block L - k into the base: the same plans of the same `Mixer` compute both.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from annotated_types import Ge, Le

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.exchange import exchange
from vestige.analyses.metric import LAYER, WHOLE, Axis, Metric
from vestige.analyses.patched_scores import Asker, Replicated, task_scores
from vestige.analyses.perplexity import Perplexity
from vestige.analyses.remarks import remark
from vestige.analyses.settings import Count, Share, Some, Whole
from vestige.comparison.estimators import Replicates
from vestige.errors import AnalysisError
from vestige.finetune.metrics import MEASURES
from vestige.finetune.model import load_tuned
from vestige.measures.recovery import nothing_to_recover, recovered
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.lm.language_model import language_model
from vestige.models.surgery.branches import Branch
from vestige.models.surgery.patching import Change, Interpolation, Patch, Patcher, Site

Measure = Literal["task", "loss", "pairs"]
UP_TO = Axis("up_to", "all layers up to (1 = first block)")
G = Axis("g", "share of the tuned weights (0 = base, 1 = tuned)")
DIRECTIONS = {"kept": "base into tuned", "recovered": "tuned into base"}
_PLACES = (LAYER, UP_TO)


def _metrics(measure: str, what: str, unit: Literal["percent", "nats"], margin: float) -> tuple[Metric, ...]:
    better: Literal["lower", "higher"] = "lower" if measure == "loss" else "higher"
    decimals = 3 if unit == "nats" else 1
    return (
        Metric(
            f"{measure}_kept", f"kept share of the change of {what}", "percent", decimals=0, along=_PLACES,
            about="Of the base put into the tuned model: 100 % as tuned, 0 % as the base.",
        ),
        Metric(
            f"{measure}_recovered", f"recovered share of the change of {what}", "percent", decimals=0,
            along=(*_PLACES, G), about="Of the tuned model put into the base: 100 % as tuned, 0 % as the base.",
        ),
        Metric(
            f"{measure}_change", f"what the base at one place does to {what}", unit, better, margin, decimals,
            compared=Replicates(table=f"{measure}_replicates", column="patched", before="tuned"),
            sides=("tuned", "with the base's"),
        ),
        Metric(f"{measure}_patched", f"{what} when patched", unit, better, None, decimals, (*_PLACES, G), "detail"),
        Metric(f"{measure}_base", f"{what} of the base", unit, better, None, decimals, (WHOLE,), "baseline"),
        Metric(f"{measure}_tuned", f"{what} of the tuned model", unit, better, None, decimals, (WHOLE,), "baseline"),
    )  # fmt: skip


_OF: dict[Measure, tuple[Metric, ...]] = {
    "task": _metrics("task", "the score on its own task", "percent", 0.01),
    "loss": _metrics("loss", "the language model's loss", "nats", 0.02),
    "pairs": _metrics("pairs", "the accuracy on minimal pairs", "percent", 0.01),
}
_LEFT_OUT = remark(
    "sites_left_out",
    "sites left out",
    "{subset} of {model} cannot be patched: they are no module's output in its blocks",
)


class Place(NamedTuple):
    """Where a changed model lies."""

    change: Change
    metric: str
    """`kept` or `recovered`."""
    where: dict[str, Any]


@dataclass(frozen=True)
class Patching(Analysis):
    """How much of the change is there when activations or blocks of one model are put into the other.

    R = (patched - base) / (tuned - base), with Fieller's interval over sentences. The base is scored under the tuned
    model's head on the tuned task, and both under the reference's language-model head. Where base and tuned are not
    shown to differ in a score by more than its margin, there is nothing to recover.
    """

    name: ClassVar[str] = "patching"
    title: ClassVar[str] = "Patching: where the change sits"
    source: ClassVar[str] = (
        "activation patching, Vig et al. 2020; between base and tuned, Prakash et al. 2024; blocks "
        "by weights after mosbach2020, section 5.2; intervals after Fieller 1954"
    )
    needs = frozenset({"logits"})
    levels = ("token", "span", "span_pair", "sentence", "sentence_pair", "tree", "text")
    models = 2
    uses_labels = False
    metrics = (*(metric for each in _OF.values() for metric in each), _LEFT_OUT)

    measures: Annotated[tuple[Measure, ...], Some] = ("task", "loss")
    """Scores whose change is looked for: that of the task on which the study tuned the model, the loss of the language
    model, the accuracy on minimal pairs (of a corpus that has them)."""
    sites: Annotated[tuple[Site, ...], Some] | None = None
    """What is exchanged: the output of a block, the block itself (block weights), the output of its attention, of its
    mlp; None: all that the model shows."""
    cumulative: bool = True
    """Also patch attention and MLP outputs of all blocks up to each. (The output of a block holds all below it.)"""
    g: tuple[Annotated[float, Ge(0), Le(1)], ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    """Shares of the tuned weights in g tuned + (1 - g) base."""
    rate: Share = 0.15
    """Share of tokens that are masked (loss)."""
    head_file: str | None = None
    """A file with a language-model head (`LMHead`), for models that come without one."""
    sentences: Count | None = None
    """Loss of the first so many of the split; None: all."""
    pairs: Count | None = None
    """The first so many minimal pairs of every paradigm; None: all."""
    seed: Whole = 0
    """Of the masks."""
    split: str = "test"
    """The split whose text is read (loss, pairs)."""
    own_split: str | None = None
    """The split of the tuned task; None: dev or, where there is none, test."""

    @property
    def given(self) -> tuple[Metric, ...]:
        return (*(metric for measure in self.measures for metric in _OF[measure]), _LEFT_OUT)

    @property
    def wants_own_task(self) -> bool:
        return "task" in self.measures

    def run(self, inputs: Inputs) -> Outcome:
        outcome = Outcome()
        encoder = language_model(inputs.encoder, inputs.model)
        if inputs.reference is None:
            raise AnalysisError(f"{inputs.model} has no reference to be patched with", fix="name its reference")
        other = language_model(inputs.reference.encoder, inputs.reference.model)
        patcher = exchange(Patcher, encoder, other, "leave patching out for this model")
        places = self._places(patcher, inputs.model, outcome)
        changes = [Patch(host=1), Patch(host=0), *(place.change for place in places)]
        for measure in self.measures:
            try:
                if measure == "task":
                    found = self._task(inputs, other, changes, outcome)
                else:
                    found = self._asked(measure, inputs, Asker(patcher, encoder, other, self.head_file), changes)
            except AnalysisError as error:
                if len(self.measures) == 1:
                    raise
                outcome.absent |= {metric.name: error.problem for metric in _OF[measure]}
                continue
            self._report(measure, found, places, outcome)
        if not outcome.rows or all(row["metric"] == _LEFT_OUT.name for row in outcome.rows):
            why = "; ".join(dict.fromkeys(outcome.absent.values()))
            raise AnalysisError(f"{inputs.model}: there is no score to patch for: {why}", fix=_FIX)
        return outcome

    def _places(self, patcher: Patcher, model: str, outcome: Outcome) -> list[Place]:
        """Everything that is patched."""
        sites = get_args(Site) if self.sites is None else self.sites
        missing = [site for site in sites if site in get_args(Branch) and site not in patcher.branches]
        if missing and self.sites is not None:
            raise AnalysisError(
                f"the {missing[0]} output of {model} is no module's output in its blocks, so it cannot be patched",
                fix="patch blocks: sites: [block, block weights]",
            )
        named = " and ".join(missing)
        outcome.add(_LEFT_OUT.name, len(missing), **({"subset": f"{named} outputs"} if missing else {}))
        places = list(self._patches(patcher.depth, [site for site in sites if site not in missing]))
        for share in self.g:
            places.append(Place(Interpolation(share), "recovered", {"axis": G.name, "x": share}))
        return places

    def _patches(self, depth: int, sites: Sequence[Site]) -> Iterator[Place]:
        for host, metric in ((0, "kept"), (1, "recovered")):
            for site in sites:
                variant = {"subset": site}
                branch = site in get_args(Branch)
                for layer in range(int(branch), depth + 1):
                    yield Place(Patch(host, site, (layer,)), metric, {"layer": layer, **variant})
                if branch and self.cumulative and depth > 1:
                    for layer in range(1, depth + 1):
                        below = tuple(range(1, layer + 1))
                        yield Place(Patch(host, site, below), metric, {"axis": UP_TO.name, "x": layer, **variant})

    def _task(
        self, inputs: Inputs, other: HuggingFaceEncoder, changes: Sequence[Change], outcome: Outcome
    ) -> Replicated:
        """Scores on the task that the model was tuned for, under its own head."""
        own = inputs.own
        if own is None:
            raise AnalysisError(f"the study did not tune {inputs.model}, so it has no task of its own", fix=_FIX)
        there = [split for split in ("dev", "test") if split in own.task.corpus.splits]
        if not there and self.own_split is None:
            raise AnalysisError("the corpus of its own task has neither dev nor test", fix="name own_split")
        split = self.own_split or there[0]
        own.task.corpus[split]
        tuned = load_tuned(own.folder, str(other.device))
        tuned.encoder.name = inputs.model
        patcher = exchange(Patcher, tuned.encoder, other, "leave task out of the measures")
        found = task_scores(patcher, tuned, own, split, changes)
        measure = MEASURES[tuned.problem.primary]
        for name, values in zip(("base", "tuned"), found.values, strict=False):
            outcome.add(f"task_{name}", values[0], subset=measure, split=split, n=found.sentences)
        return found

    def _asked(self, measure: Measure, inputs: Inputs, asker: Asker, changes: Sequence[Change]) -> Replicated:
        sentences = [s for s in inputs.task.corpus[self.split] if s.words]
        if measure == "pairs":
            return asker.pair_accuracies(sentences, self.pairs, changes)
        asking = Perplexity(unit="sentence", rate=self.rate, seed=self.seed)
        return asker.losses(sentences[: self.sentences], asking, changes)

    def _report(self, measure: Measure, found: Replicated, places: Sequence[Place], outcome: Outcome) -> None:
        base, tuned, *patched = found.values
        count = {"n": found.sentences}
        if measure != "task":
            outcome.add(f"{measure}_base", base[0], **count)
            outcome.add(f"{measure}_tuned", tuned[0], **count)
        margin = _OF[measure][2].margin
        assert margin is not None
        why = nothing_to_recover(base, tuned, margin)
        shares = {metric.name for metric in _OF[measure][:2]}
        outcome.absent |= dict.fromkeys(shares, why) if why else {}
        for place, values in zip(places, patched, strict=True):
            direction = DIRECTIONS[place.metric] if "subset" in place.where else None
            outcome.add(f"{measure}_patched", values[0], **place.where, subset2=direction, **count)
            if not why:
                share = recovered(values, base, tuned)._asdict()
                outcome.add(f"{measure}_{place.metric}", **share, **place.where, **count)
        asked = [(p, values) for p, values in zip(places, patched, strict=True) if _is_undoing(p)]
        for place, values in asked:
            outcome.add(f"{measure}_change", values[0] - tuned[0], **place.where, **count)
        if asked:
            outcome.tables[f"{measure}_replicates"] = _replicates(asked, tuned, found.sentences)
        else:
            outcome.absent[f"{measure}_change"] = "nothing is put into the tuned model at one layer"


_FIX = "run it on a model that the study tunes, or on one with a language-model head"


def _is_undoing(place: Place) -> bool:
    """Is the base put into the tuned model, at one layer?"""
    return place.metric == "kept" and "layer" in place.where


def _replicates(asked: Sequence[tuple[Place, np.ndarray]], tuned: np.ndarray, sentences: int) -> dict[str, np.ndarray]:
    """A row for every place and group of sentences that is left out."""
    size = len(tuned)
    columns = {
        name: np.repeat(np.array([place.where[name] for place, _ in asked], dtype=kind), size)
        for name, kind in (("layer", np.int16), ("subset", object))
    }
    return {
        **columns,
        "left_out": np.tile(np.arange(-1, size - 1), len(asked)),
        "sentences": np.full(size * len(asked), sentences),
        "tuned": np.tile(tuned, len(asked)),
        "patched": np.concatenate([values for _, values in asked]),
    }
