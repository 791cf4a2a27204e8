"""Fine-tuning a classifier: reproducible, learning something, and clear about what it cannot do."""

import json

import pytest
import tiny
import torch
from transformers import AutoModel

from vestige.corpus.types import Corpus, Sentence
from vestige.digest import sha256_of_file
from vestige.errors import ModelError
from vestige.finetune.recipe import Recipe
from vestige.finetune.train import finetune

QUICK = Recipe(rate=3e-3, epochs=8, batch=8)


def task(labels=("good", "bad"), level="sentence"):
    """Sentences whose label is whether they speak of the fox or of the museum."""
    lines = [tiny.TEXT[0].split(), tiny.TEXT[1].split()]
    made = [
        Sentence(f"s{i}", tuple(lines[i % 2][: 5 + i % 4]), annotations={"opinion": labels[i % len(labels)]})
        for i in range(32)
    ]
    return Corpus("opinions", {"train": tuple(made), "dev": tuple(made[:8])}, {"opinion": level}).task("opinion")


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_every_family_learns_and_is_saved_as_an_ordinary_folder(family, tmp_path, cache):
    folder = tiny.save(family, tmp_path / family)
    tuned = finetune(folder, task(), QUICK, threads=1, cache=cache)
    curve = tuned.log["curve"]
    assert curve[-1]["loss"] < curve[1]["loss"] and curve[-1]["dev_accuracy"] >= 0.75
    AutoModel.from_pretrained(tuned.folder)
    assert json.loads((tuned.folder / "finetune.json").read_text())["seed"] == 0


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path):
    folder = tiny.save("bert", tmp_path / "bert")

    def weights(place, seed):
        made = finetune(folder, task(), Recipe(epochs=1), seed=seed, threads=1, cache=tmp_path / place)
        return sha256_of_file(made.folder / "model.safetensors")

    assert weights("one", 0) == weights("two", 0) != weights("three", 1)


def test_a_model_that_is_there_is_not_trained_again(tmp_path, cache, monkeypatch):
    folder = tiny.save("bert", tmp_path / "bert")
    first = finetune(folder, task(), Recipe(epochs=1), threads=1, cache=cache)
    monkeypatch.setattr("vestige.finetune.train._train", lambda *_: pytest.fail("trained again"))
    assert finetune(folder, task(), Recipe(epochs=1), threads=1, cache=cache) == first


def test_a_loss_that_is_not_a_number_stops_the_training(tmp_path, cache, monkeypatch):
    folder = tiny.save("bert", tmp_path / "bert")
    monkeypatch.setattr("vestige.finetune.train._loss", lambda *_: torch.tensor(float("nan"), requires_grad=True))
    with pytest.raises(ModelError, match="diverged: the loss of epoch 1 is nan"):
        finetune(folder, task(), Recipe(epochs=1), threads=1, cache=cache)
    assert not list((cache / "models").glob("*"))


def test_one_label_or_another_level_is_refused(tmp_path, cache):
    folder = tiny.save("bert", tmp_path / "bert")
    with pytest.raises(ModelError, match="only the label 'good'"):
        finetune(folder, task(labels=("good",)), QUICK, cache=cache)
    with pytest.raises(ModelError, match="only sentence classification"):
        finetune(folder, task(level="text"), QUICK, cache=cache)
