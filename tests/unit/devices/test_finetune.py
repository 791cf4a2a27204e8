"""Fine-tuning on the pretend device: the losses of the CPU, and a step that keeps the device busy."""

from collections import Counter
from dataclasses import replace

import pytest
import tiny
from pretend_gpu import DEVICE, pretend_gpu

from unit.finetune.made import opinions, pairs, questions, trees, words
from vestige.finetune import loop
from vestige.finetune.recipe import Lora, Recipe
from vestige.finetune.score import score
from vestige.finetune.train import finetune

RECIPE = Recipe(rate=1e-3, epochs=1, batch=8, dropout=0.0, save_epochs=False)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return tiny.save("bert", tmp_path_factory.mktemp("models") / "bert")


def tuned(folder, task, recipe, device, place):
    return finetune(folder, task, recipe, threads=1, device=device, cache=place / device)


def alike(here, there):
    for mine, theirs in zip(here.log["curve"], there.log["curve"], strict=True):
        assert mine.keys() == theirs.keys()
        for name in mine:
            assert theirs[name] == pytest.approx(mine[name], rel=2e-3, abs=2e-3), name


TASKS = {
    "sentences": opinions,
    "pairs": pairs,
    "numbers": lambda: pairs((1.5, 4.0), "closeness"),
    "words": words,
    "questions": questions,
    "trees": trees,
}


@pytest.fixture
def waited(gpu, monkeypatch):
    """Where the device was waited for in every step."""
    found = []
    step = loop.Run._step

    def counted(self, batch):
        before = Counter(gpu.trips)
        loss = step(self, batch)
        found.append(gpu.trips - before)
        return loss

    monkeypatch.setattr(loop.Run, "_step", counted)
    return found


@pytest.mark.parametrize("task", TASKS)
def test_every_kind_of_task(waited, bert, task, tmp_path):
    """In a step transformers asks whether the batch is padded, and the parser looks at its gold trees."""
    made = TASKS[task]()
    here, there = (tuned(bert, made, RECIPE, device, tmp_path) for device in ("cpu", DEVICE))
    alike(here, there)
    scores = [score(one, made, device=device) for one, device in ((here, "cpu"), (there, DEVICE))]
    assert scores[1].answers == scores[0].answers or task == "numbers"
    assert 1 <= max(step.total() for step in waited) <= 2, waited[-1]


@pytest.mark.parametrize(
    "changes",
    [
        {"lora": Lora(r=2, alpha=4)},
        {"freeze": 1, "freeze_eval": True},
        {"early_stopping": 1, "accumulate": 2, "warmup": 0.1},
        {"pooling": "mean", "save_epochs": True},
    ],
    ids=str,
)
def test_recipes(gpu, bert, changes, tmp_path):
    recipe = replace(RECIPE, **changes)
    alike(*(tuned(bert, opinions(), recipe, device, tmp_path) for device in ("cpu", DEVICE)))


def test_a_decoder(gpu, tmp_path):
    folder = tiny.save("gpt2", tmp_path / "gpt2")
    alike(*(tuned(folder, opinions(), RECIPE, device, tmp_path) for device in ("cpu", DEVICE)))


def test_trees_are_read_from_a_device_without_float64(monkeypatch, bert, tmp_path):
    monkeypatch.setattr("vestige.finetune.train.check_device", lambda device: None)
    with pretend_gpu(float64=False):
        tuned(bert, trees(), RECIPE, DEVICE, tmp_path)
