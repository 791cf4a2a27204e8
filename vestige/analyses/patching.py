"""Patching: where does what fine-tuning changed sit, causally?

Activations of the base model are put into the run of the tuned one, and the other way round, at the output of a
block, of its attention or of its MLP; or a block itself is taken from the other model. What of the change of a score
is then still there is R = (patched - base) / (tuned - base): 1 as tuned, 0 as the base. The same is asked of weights
on the straight line between both models. Replacing the last k of L blocks, as `perplexity` does, is to put the tuned
model's output of block L - k into the base: the same plans of the same `Mixer` compute both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.exchange import exchange
from vestige.analyses.metric import Metric
from vestige.analyses.patch_places import LEFT_OUT, changes_of, find_places, patch_metrics, report
from vestige.analyses.patched_scores import Asker, Replicated, task_scores
from vestige.analyses.perplexity import Perplexity
from vestige.analyses.settings import Count, Share, Some, Whole
from vestige.errors import AnalysisError
from vestige.finetune.metrics import MEASURES
from vestige.finetune.model import load_tuned
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.lm.language_model import language_model
from vestige.models.surgery.patching import Change, Patcher, Site

Measure = Literal["task", "loss", "pairs"]
_OF: dict[Measure, tuple[Metric, ...]] = {
    "task": patch_metrics("task", "the score on its own task", "percent", 0.01),
    "loss": patch_metrics("loss", "the language model's loss", "nats", 0.02),
    "pairs": patch_metrics("pairs", "the accuracy on minimal pairs", "percent", 0.01),
}


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
    metrics = (*(metric for each in _OF.values() for metric in each), LEFT_OUT)

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
        return (*(metric for measure in self.measures for metric in _OF[measure]), LEFT_OUT)

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
        places = find_places(patcher, inputs.model, outcome, self.sites, self.cumulative, self.g)
        changes = changes_of(places)
        for measure in self.measures:
            levels: dict[str, str] = {}
            try:
                if measure == "task":
                    found, levels = self._task(inputs, other, changes)
                else:
                    found = self._asked(measure, inputs, Asker(patcher, encoder, other, self.head_file), changes)
            except AnalysisError as error:
                if len(self.measures) == 1:
                    raise
                outcome.absent |= {metric.name: error.problem for metric in _OF[measure]}
                continue
            report(_OF[measure], found, places, outcome, **levels)
        if not outcome.rows or all(row["metric"] == LEFT_OUT.name for row in outcome.rows):
            why = "; ".join(dict.fromkeys(outcome.absent.values()))
            raise AnalysisError(f"{inputs.model}: there is no score to patch for: {why}", fix=_FIX)
        return outcome

    def _task(
        self, inputs: Inputs, other: HuggingFaceEncoder, changes: Sequence[Change]
    ) -> tuple[Replicated, dict[str, str]]:
        """Scores on the task that the model was tuned for, under its own head; which measure of which split it is."""
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
        return found, {"subset": MEASURES[tuned.problem.primary], "split": split}

    def _asked(self, measure: Measure, inputs: Inputs, asker: Asker, changes: Sequence[Change]) -> Replicated:
        sentences = [s for s in inputs.task.corpus[self.split] if s.words]
        if measure == "pairs":
            return asker.pair_accuracies(sentences, self.pairs, changes)
        asking = Perplexity(unit="sentence", rate=self.rate, seed=self.seed)
        return asker.losses(sentences[: self.sentences], asking, changes)


_FIX = "run it on a model that the study tunes, or on one with a language-model head"
