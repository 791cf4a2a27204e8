"""Probe a model while it is trained: by a callback of transformers' Trainer, or by a call in a loop of your own.

Every so many steps the weights are read as they are, and the analyses run on them; at the end the
tables are those of a study whose models are the steps, each compared with the start. Training goes
on as if nothing had happened: modes of the modules, random numbers and threads are restored.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback

from vestige.analyses.registry import WHILE_TRAINING, find_analysis
from vestige.corpus.load import load_corpus
from vestige.corpus.types import Corpus
from vestige.errors import SpecError
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.files.load import find_tokenizer
from vestige.study.corpora import Given
from vestige.study.engines.settings import EngineSpec
from vestige.study.failures import Failure
from vestige.study.finished import StudyRun
from vestige.study.folders import refuse_results
from vestige.study.plan import Plan, make_plan
from vestige.study.results import results_frame
from vestige.study.run import Study
from vestige.study.spec import StudySpec, make_spec
from vestige.study.watch_log import log_numbers

if TYPE_CHECKING:
    from transformers import Trainer

START = "start"


class Watch:
    """Measures a model when it is first shown (`start`) and every `every` steps; a copy of the start is kept.

    `tasks` are labellings of the corpus; analyses of two models compare with the start.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        corpus: str | Path | Corpus,
        tasks: Sequence[str],
        *,
        every: int = 100,
        analyses: Sequence[str | dict[str, Any]] = WHILE_TRAINING,
        limit: int | None = None,
        folder: str | Path = "runs/watch",
        overwrite: bool = False,
        cache: str | Path | None = None,
    ) -> None:
        if every < 1:
            raise SpecError(f"a model cannot be measured every {every} steps", fix="give 1 or more")
        if not overwrite:  # said before the training, not after it
            refuse_results(Path(folder))
        self.tokenizer = find_tokenizer(tokenizer)
        self.corpus = corpus if isinstance(corpus, Corpus) else load_corpus(corpus)
        self.every, self.limit, self.folder, self.cache = every, limit, Path(folder), cache
        self.analyses = [_analysis(item, tasks) for item in analyses]
        self.start: tuple[int, HuggingFaceEncoder] | None = None
        self.plans: dict[int, Plan] = {}
        self.failures: dict[str, Failure] = {}

    def __repr__(self) -> str:
        """What is measured how often, what was, and where the tables go."""
        names = ", ".join(next(iter(item)) for item in self.analyses)
        done = f"measured at {', '.join(map(str, sorted(self.plans)))}" if self.plans else "nothing measured yet"
        return f"Watch({names} on {self.corpus.name} every {self.every} steps; {done}; in {self.folder})"

    def step(self, model: PreTrainedModel, step: int) -> None:
        """Tell it that a step is done (0: before the first); every so often it measures."""
        if step % self.every == 0:
            self.measure(model, step)

    def measure(self, model: PreTrainedModel, step: int) -> None:
        """Measure the model as it is now."""
        if step in self.plans:
            return
        while hasattr(model, "module"):  # DataParallel and its like
            model = model.module
        if not isinstance(model, PreTrainedModel) and not hasattr(model, "base_model"):
            raise SpecError(
                f"a {type(model).__name__} cannot be watched", fix="hand over the transformers model inside of it"
            )
        with _undisturbed(model):
            encoder = HuggingFaceEncoder(model.base_model, deepcopy(self.tokenizer), f"step {step}", None)
            if self.start is None:
                copy = HuggingFaceEncoder(deepcopy(model.base_model), deepcopy(self.tokenizer), START, None)
                self.start = step, copy
            first, start = self.start
            given = {START: start} | ({self._name(step): encoder} if step != first else {})
            handed = Given(given, {"corpus": self.corpus})
            study = Study(self._spec([step]), self.folder, given=handed, cache=self.cache)
            plan = make_plan(study.spec, handed, self.cache)
            self.failures |= study.drive(plan, EngineSpec())
        self.plans[step] = plan

    def numbers(self, step: int) -> dict[str, float]:
        """What was measured at a step, for a log: `vestige/layer_probe/upos/accuracy/layer_06` and the like.

        Results by layer or of the whole model, means over seeds of the probes.
        """
        plan = self.plans[step]
        return log_numbers(plan.cells, results_frame(self._spec([step]), plan.cells), self._name(step))

    def finish(self) -> StudyRun:
        """Write the tables of all steps so far."""
        if not self.plans:
            raise SpecError("nothing was measured", fix="call step(model, 0) before training and step after every step")
        spec = self._spec(sorted(self.plans))
        plan = Plan(corpora=next(iter(self.plans.values())).corpora)
        for found in self.plans.values():
            plan.loads |= found.loads
            plan.extracts |= found.extracts
            plan.named.about |= found.named.about
            plan.notes += [note for note in found.notes if note not in plan.notes]
        cells = [cell for found in self.plans.values() for cell in found.cells]
        plan.cells = list({(cell.model, cell.key): cell for cell in cells}.values())
        plan.compares = list({step.key: step for found in self.plans.values() for step in found.compares}.values())
        return Study(spec, self.folder, given=Given(corpora={"corpus": self.corpus}), cache=self.cache).write(
            plan, self.failures
        )

    def _name(self, step: int) -> str:
        return START if self.start is not None and step == self.start[0] else f"step {step}"

    def _spec(self, steps: Sequence[int]) -> StudySpec:
        assert self.start is not None
        first = self.start[0]
        models: dict[str, Any] = {START: {"load": "(given)", "step": first}}
        later = [step for step in steps if step != first]
        models |= {f"step {step}": {"load": "(given)", "reference": START, "step": step} for step in later}
        return make_spec(
            {
                "study": "watch",
                "models": models,
                "corpora": {"corpus": {"files": {}}},
                "analyses": self.analyses,
                "limit": self.limit,
            }
        )


class WatchCallback(TrainerCallback):
    """`WatchCallback(tokenizer, "treebank", ["upos"], every=200).attach(trainer)`; after it, `.run` has the tables.

    Attached, every measurement is also logged by the trainer itself: its history and whatever tracker it reports to
    (TensorBoard, trackio, wandb ...) receive it; no tracker is enabled. Given as `Trainer(..., callbacks=[...])`, it
    measures and logs nothing: a callback is not told whose it is.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.watch = Watch(*arguments, **options)
        self.run: StudyRun | None = None
        self.trainer: Any = None

    def attach(self, trainer: "Trainer") -> "WatchCallback":
        """Become a callback of the trainer, and log what is measured by it; itself, to go on with."""
        if self not in trainer.callback_handler.callbacks:
            trainer.add_callback(self)
        self.trainer = trainer
        return self

    def __repr__(self) -> str:
        """As its watch."""
        return f"WatchCallback({self.watch!r})"

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Measure the start (or, after a resume, where training goes on)."""
        self._on_main(state, lambda: self._measure(model, state.global_step))

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Measure every so many steps, and at the last: trackers close before `on_train_end` comes here."""
        if state.global_step % self.watch.every == 0 or control.should_training_stop:
            self._on_main(state, lambda: self._measure(model, state.global_step))

    def on_train_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Measure the end and write the tables."""

        def finish() -> None:
            self._measure(model, state.global_step)
            self.run = self.watch.finish()

        self._on_main(state, finish)

    def _measure(self, model: Any, step: int) -> None:
        known = step in self.watch.plans
        self.watch.measure(model, step)
        if self.trainer is not None and not known and (numbers := self.watch.numbers(step)):
            self.trainer.log(numbers)

    @staticmethod
    def _on_main(state: Any, act: Any) -> None:
        if state.is_world_process_zero:
            act()


def _analysis(item: str | dict[str, Any], tasks: Sequence[str]) -> dict[str, Any]:
    name, parameters = (item, {}) if isinstance(item, str) else next(iter(item.items()))
    asked = {"tasks": [f"corpus/{task}" for task in tasks]} if find_analysis(name).levels else {}
    return {name: {**asked, **parameters}}


@contextmanager
def _undisturbed(model: torch.nn.Module) -> Iterator[None]:
    """Restore what measuring touches."""
    training = {module: module.training for module in model.modules()}
    threads = torch.get_num_threads()
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            for module, mode in training.items():
                module.training = mode
            torch.set_num_threads(threads)
