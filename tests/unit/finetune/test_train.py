"""Fine-tuning: reproducible, saved whole, and clear about what it cannot do."""

import json
import math
from dataclasses import replace

import pytest
import tiny
import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

from unit.finetune.made import QUICK, opinions, pairs, words
from vestige.corpus.types import Corpus, Sentence
from vestige.digest import sha256_of_file
from vestige.errors import CorpusError, ModelError
from vestige.finetune.loop import _explaining_memory, factor
from vestige.finetune.model import Tunable, load_tuned
from vestige.finetune.recipe import Recipe
from vestige.finetune.score import score
from vestige.finetune.train import finetune
from vestige.finetune.workplace import STATE
from vestige.models.files.load import load_model
from vestige.models.files.series import find_checkpoints

ONE = Recipe(epochs=1)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return tiny.save("bert", tmp_path_factory.mktemp("models") / "bert")


def weights(tuned):
    return sha256_of_file(tuned.folder / "model.safetensors")


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_every_family_learns_and_is_saved_as_an_ordinary_folder(family, tmp_path, cache):
    folder = tiny.save(family, tmp_path / family)
    tuned = finetune(folder, opinions(), QUICK, threads=1, cache=cache)
    curve = tuned.log["curve"]
    assert curve[-1]["loss"] < 0.9 * curve[1]["loss"]
    AutoModel.from_pretrained(tuned.folder)
    assert json.loads((tuned.folder / "finetune.json").read_text())["seed"] == 0


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(bert, tmp_path):
    one, two = (finetune(bert, opinions(), ONE, threads=1, cache=tmp_path / place) for place in "ab")
    other = finetune(bert, opinions(), ONE, seed=1, threads=1, cache=tmp_path / "a")
    assert one.folder.name == two.folder.name and one.log == two.log
    assert weights(one) == weights(two) != weights(other)


def test_training_leaves_the_callers_random_numbers_alone(bert, cache):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    finetune(bert, opinions(), ONE, threads=1, cache=cache)
    assert torch.equal(torch.rand(3), expected)


def test_a_base_without_a_pooler_is_known_again(tmp_path, cache):
    """What its files lack is drawn, and must neither change the key nor the result."""
    folder = tmp_path / "roberta"
    tiny.save("roberta", folder)
    AutoModelForMaskedLM.from_config(tiny.config("roberta")).save_pretrained(folder)
    assert not any("pooler" in name for name in load_file(folder / "model.safetensors"))
    kept = replace(ONE, pooler="pretrained")
    runs = []
    for place in "ab":
        torch.manual_seed(ord(place))
        runs.append(finetune(folder, opinions(), kept, threads=1, cache=tmp_path / place))
    assert runs[0].folder.name == runs[1].folder.name and weights(runs[0]) == weights(runs[1])


@pytest.mark.parametrize("family", [*tiny.BYTE_LEVEL, "bert", "xlnet"])
def test_the_folder_alone_gives_the_answers_that_were_scored(family, tmp_path, cache):
    """Loaded by transformers, on plain text."""
    task = opinions()
    tuned = finetune(tiny.save(family, tmp_path / family), task, ONE, threads=1, cache=cache)
    model = AutoModelForSequenceClassification.from_pretrained(tuned.folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(tuned.folder)
    again = load_tuned(tuned.folder)
    for sentence in task.corpus["dev"][:4]:
        examples, _ = again.problem.examples(again.encoder, [sentence], task.name, False)
        with torch.inference_mode():
            inputs, _ = again.batch(examples, training=False)
            plain = model(**tokenizer(" ".join(sentence.words), return_tensors="pt")).logits
            torch.testing.assert_close(plain, again.whole(**inputs).logits, atol=1e-5, rtol=1e-4)


def test_sentences_of_which_nothing_is_left_are_not_trained_on(bert, cache):
    task = words()
    odd = Sentence("odd", ("\u200d",), annotations={"size": ("sign",)})
    corpus = Corpus("words", {**task.corpus.splits, "train": (odd, *task.corpus["train"])}, task.corpus.levels)
    tuned = finetune(bert, corpus.task("size"), replace(ONE, batch=1), threads=1, cache=cache)
    assert any("1 examples of which the tokenizer makes nothing" in note for note in tuned.log["notes"])


def test_an_adapter_names_its_base_from_everywhere(tmp_path, cache, monkeypatch):
    tiny.save("bert", tmp_path / "bert")
    monkeypatch.chdir(tmp_path)
    tuned = finetune("bert", opinions(), replace(ONE, lora=True), threads=1, cache=cache)
    monkeypatch.chdir("/")
    assert load_model(tuned.folder).without_adapter().weights_digest() == load_model(tmp_path / "bert").weights_digest()


def test_short_memory_while_scoring(bert, cache, monkeypatch):
    """Batches are halved; where one input does not fit, what to lower is said."""
    tuned = finetune(bert, opinions(), ONE, threads=1, cache=cache)
    model, forward = load_tuned(tuned.folder), Tunable.forward

    def with_room_for(most):
        def run(self, inputs, given, answer_for=()):
            if len(inputs["input_ids"]) > most:
                raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
            return forward(self, inputs, given, answer_for)

        return run

    expected = score(model, opinions()).answers
    monkeypatch.setattr(Tunable, "forward", with_room_for(3))
    assert score(model, opinions()).answers == expected
    monkeypatch.setattr(Tunable, "forward", with_room_for(0))
    with pytest.raises(ModelError, match=r"out of memory while scoring.*\n.*lower max_tokens"):
        score(model, opinions())


def test_a_model_that_is_there_is_not_trained_again(bert, cache, monkeypatch):
    first = finetune(bert, opinions(), ONE, threads=1, cache=cache)
    monkeypatch.setattr("vestige.finetune.train._train", lambda *_: pytest.fail("trained again"))
    assert finetune(bert, opinions(), ONE, threads=1, cache=cache) == first
    assert finetune(bert, opinions(), replace(ONE, name="another name"), threads=1, cache=cache) == first


def test_other_held_out_data_is_another_run_as_its_scores_are_kept(bert, cache):
    task = opinions()
    shorter = Corpus("opinions", {**task.corpus.splits, "dev": task.corpus["dev"][:4]}, task.corpus.levels)
    first = finetune(bert, task, ONE, threads=1, cache=cache)
    second = finetune(bert, shorter.task("opinion"), ONE, threads=1, cache=cache)
    assert first.folder != second.folder and weights(first) == weights(second)


def test_parts_of_a_batch_give_the_step_of_the_whole(bert, tmp_path):
    """Dropout off, so that the parts see the same network; the gradients are then summed in another order."""
    still = Recipe(rate=1e-3, epochs=2, batch=8, dropout=0.0)
    whole, parted = (
        finetune(bert, words(), replace(still, accumulate=n), threads=1, cache=tmp_path / str(n)) for n in (1, 3)
    )
    assert parted.log["losses"] == pytest.approx(whole.log["losses"], rel=1e-4)


def test_checkpoints_are_folders_by_step_that_load_and_score(bert, cache):
    recipe = Recipe(rate=1e-3, epochs=2, batch=8, save_steps=3)
    tuned = finetune(bert, opinions(), recipe, threads=1, cache=cache)
    found = find_checkpoints(tuned.folder)
    assert found.steps == [3, 4, 6, 8]
    assert [c["epoch"] for c in tuned.log["checkpoints"]] == [0, 1, 1, 2]
    last, final = found.load(8), load_model(tuned.folder)
    assert last.fingerprint == final.fingerprint != found.load(4).fingerprint
    assert score(tuned.folder / "checkpoint-8", opinions()).metrics == score(tuned, opinions()).metrics
    held = [tuned.folder / place / "model.safetensors" for place in (".", "checkpoint-8", "checkpoint-4")]
    assert held[0].samefile(held[1]) and not held[0].samefile(held[2])
    assert not list(tuned.folder.rglob("*.part")) and not (tuned.folder / STATE).exists()


def test_early_stopping_keeps_the_best_epoch(bert, cache):
    """A rate of nearly zero: dev never improves on the first epoch, so that one is kept."""
    recipe = Recipe(rate=1e-9, epochs=6, batch=8, early_stopping=2)
    tuned = finetune(bert, opinions(), recipe, threads=1, cache=cache)
    assert tuned.log["epoch"] == 1 and len(tuned.log["curve"]) == 4
    assert find_checkpoints(tuned.folder).load(4).fingerprint == load_model(tuned.folder).fingerprint
    alone = Corpus("x", {"train": opinions().corpus["train"]}, {"opinion": "sentence"}).task("opinion")
    with pytest.raises(ModelError, match="early stopping needs a dev split"):
        finetune(bert, alone, recipe, threads=1, cache=cache)


def test_the_rate_rises_and_stays_or_falls():
    recipe = Recipe(warmup=0.2)
    assert [factor(s, 10, recipe) for s in range(10)] == [0.5, *[1.0] * 9]
    linear = replace(recipe, schedule="linear")
    assert [factor(s, 10, linear) for s in (0, 1, 2, 6, 9)] == pytest.approx([0.5, 1, 1, 0.5, 0.125])
    assert factor(0, 10, replace(linear, warmup=0.0)) == 1


def test_bf16_trains_and_is_saved_in_float32(bert, cache):
    tuned = finetune(bert, opinions(), replace(QUICK, precision="bf16"), threads=1, cache=cache)
    assert tuned.log["curve"][-1]["loss"] < tuned.log["curve"][1]["loss"]
    assert AutoModel.from_pretrained(tuned.folder).dtype == torch.float32
    assert score(tuned, opinions()).summary() == tuned.log["scores"]["dev"]


def test_fewer_blocks_can_be_kept_before_training(bert, cache):
    tuned = finetune(bert, opinions(), ONE, keep=[0, 2], threads=1, cache=cache)
    assert load_model(tuned.folder).depth == 2 and tuned.log["keep"] == [0, 2]
    whole = finetune(bert, opinions(), ONE, keep=[0, 1, 2], threads=1, cache=cache)
    assert weights(whole) == weights(finetune(bert, opinions(), ONE, threads=1, cache=cache))
    with pytest.raises(ModelError, match="found"):
        finetune(bert, opinions(), ONE, keep=[0, 7], threads=1, cache=cache)


def test_a_head_is_always_drawn_anew(bert, cache, tmp_path):
    """A base that was tuned before has a head of the right shape, which must not be taken."""
    before = finetune(bert, opinions(), QUICK, threads=1, cache=cache)
    again = finetune(before.folder, opinions(), replace(QUICK, rate=1e-12, epochs=1), threads=1, cache=cache)
    heads = [load_tuned(t.folder).whole.classifier.weight for t in (before, again)]
    assert not torch.allclose(*heads, atol=1e-3)
    assert load_model(again.folder).fingerprint != load_model(bert).fingerprint


def test_the_pooler_is_drawn_anew_or_kept(bert, cache):
    base = AutoModel.from_pretrained(bert).pooler.dense.weight
    still = replace(QUICK, rate=1e-12, epochs=1)
    for pooler, same in (("pretrained", True), ("fresh", False)):
        tuned = finetune(bert, opinions(), replace(still, pooler=pooler), seed=3, threads=1, cache=cache)
        assert torch.allclose(AutoModel.from_pretrained(tuned.folder).pooler.dense.weight, base, atol=1e-6) is same


def test_the_card_holds_recipe_data_and_scores(bert, cache):
    tuned = finetune(bert, opinions(), QUICK, threads=1, cache=cache)
    card = (tuned.folder / "README.md").read_text()
    found = tuned.log["scores"]["dev"]["accuracy"]
    assert f"| dev | accuracy | {found['value']:.4f} |" in card and f"{found['majority']:.4f}" in card
    assert "| rate | 0.003 |" in card and tuned.log["data"]["train"][0] in card
    rows = [json.loads(line) for line in (tuned.folder / "answers-dev.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == [f"s{i}" for i in range(8)]
    assert sum(row["score"] for row in rows) / 8 == found["value"]


class TestWhatGoesWrong:
    def test_a_loss_that_is_not_a_number_stops_and_names_the_step(self, bert, cache, monkeypatch):
        from vestige.finetune.problems.sentences import Classes

        plain, seen = Classes.loss, []

        def poisoned(self, *given):
            seen.append(1)
            return plain(self, *given) * (math.nan if len(seen) == 7 else 1)

        monkeypatch.setattr(Classes, "loss", poisoned)
        recipe = Recipe(epochs=3, batch=8)
        with pytest.raises(ModelError, match=r"loss of step 7 \(epoch 2\) is nan") as error:
            finetune(bert, opinions(), recipe, threads=1, cache=cache, state_seconds=0)
        kept = next((cache / "models").glob(".*.training")) / "checkpoint-4"
        assert str(kept) in error.value.fix
        assert load_model(kept).depth == 3
        tuned = finetune(bert, opinions(), recipe, threads=1, cache=cache)
        assert [path.name for path in (cache / "models").iterdir()] == [tuned.folder.name]

    def test_a_last_step_that_ruins_the_weights_is_found_though_its_loss_is_a_number(self, bert, cache, monkeypatch):
        from vestige.finetune.problems.sentences import Classes

        plain, seen = Classes.loss, []

        def poisoned(self, *given):
            seen.append(1)
            loss = plain(self, *given)
            if len(seen) == 4:
                loss.register_hook(lambda gradient: gradient * math.inf)
            return loss

        monkeypatch.setattr(Classes, "loss", poisoned)
        with pytest.raises(ModelError, match="not finite after step 4"):
            finetune(bert, opinions(), Recipe(epochs=1, batch=8, save_epochs=False), threads=1, cache=cache)
        assert not list((cache / "models").glob("*"))

    def test_nothing_is_left_of_a_run_without_a_checkpoint(self, bert, cache):
        with pytest.raises(ModelError, match="diverged: the loss of step"):
            finetune(bert, opinions(), replace(QUICK, rate=1e30, clip=0.0), threads=1, cache=cache)
        assert not list((cache / "models").glob("*"))

    def test_running_out_of_memory_says_what_to_change(self):
        from vestige.finetune.examples import Example
        from vestige.models.tokens.align import Encoded

        batch = [Example(0, Encoded((1, 2, 3), (0, 0, 0), (0, 1, 2), 3, 3), 0)]
        with pytest.raises(ModelError, match="1 inputs of up to 3 tokens") as error, _explaining_memory(ONE, batch):
            torch.empty(1 << 50)
        assert all(word in error.value.fix for word in ("accumulate", "max_tokens", "batch"))
        with pytest.raises(RuntimeError, match="size"), _explaining_memory(ONE, batch):
            torch.ones(2) + torch.ones(3)

    def test_one_label_or_another_level(self, bert, cache):
        with pytest.raises(ModelError, match="only the label 'good'"):
            finetune(bert, opinions(labels=("good",)), QUICK, cache=cache)
        with pytest.raises(ModelError, match=r"only the number 1\.0"):
            finetune(bert, pairs(labels=(1.0, 1.0)), QUICK, cache=cache)
        with pytest.raises(ModelError, match="numbers that are not finite"):
            finetune(bert, pairs(labels=(1.0, math.nan)), QUICK, cache=cache)
        with pytest.raises(ModelError, match="at level 'text'; models are tuned on"):
            finetune(bert, opinions(level="text"), QUICK, cache=cache)
        with pytest.raises(ModelError, match="'merchant2020_mnli' is for tasks at level sentence_pair"):
            finetune(bert, opinions(), "merchant2020_mnli", cache=cache)

    def test_a_depth_that_the_model_does_not_have(self, bert, cache):
        with pytest.raises(ModelError, match="has 3 blocks, asked to freeze 4"):
            finetune(bert, opinions(), Recipe(freeze=4), threads=1, cache=cache)

    def test_no_threads(self, bert, cache):
        with pytest.raises(ModelError, match=r"0 threads\n.*at least 1"):
            finetune(bert, opinions(), ONE, threads=0, cache=cache)

    def test_labels_of_dev_that_train_never_has_are_noted_or_refused_before_training(self, bert, cache):
        train, strange = opinions().corpus["train"], opinions(labels=("good", "ham")).corpus["train"]
        some = Corpus("x", {"train": train, "dev": strange[:8]}, {"opinion": "sentence"}).task("opinion")
        log = finetune(bert, some, ONE, threads=1, cache=cache).log
        assert log["notes"] == ["dev: 4 of 8 labels never occur in train: ham"]
        none = Corpus("x", {"train": train, "dev": strange[1::2]}, {"opinion": "sentence"}).task("opinion")
        with pytest.raises(ModelError, match="x/opinion, dev, does not fit the head"):
            finetune(bert, none, replace(QUICK, rate=1e30, clip=0.0), threads=1, cache=cache)

    def test_labels_that_do_not_fit_the_head(self, bert, cache):
        tuned = finetune(bert, opinions(), ONE, threads=1, cache=cache)
        with pytest.raises(ModelError, match="does not fit the head"):
            score(tuned, opinions(labels=("spam", "ham")))
        with pytest.raises(ModelError, match="does not fit the head"):
            score(tuned, pairs(labels=(0.0, 1.0)))
        half = score(tuned, opinions(labels=("good", "ham")))
        assert half.metrics["accuracy"].value <= 0.5

    def test_a_family_without_the_head(self, tmp_path, cache, monkeypatch):
        folder = tiny.save("bart", tmp_path / "bart")
        monkeypatch.setattr("vestige.finetune.problems.words.Words.fallback", False)
        with pytest.raises(ModelError, match="no AutoModelForTokenClassification for bart"):
            finetune(folder, words(), QUICK, threads=1, cache=cache)

    def test_sentences_past_the_limit_are_counted(self, bert, cache):
        tuned = finetune(bert, opinions(), Recipe(epochs=1, max_tokens=8), threads=1, cache=cache)
        assert any("of 32 inputs have more than 8 tokens" in note for note in tuned.log["notes"])
        long = Corpus(
            "x",
            {"train": tuple(Sentence(f"{i}", ("the",) * (9 + i), ("fox",) * 9, {"y": str(i % 2)}) for i in range(8))},
            {"y": "sentence_pair"},
        ).task("y")
        log = finetune(bert, long, Recipe(epochs=1, max_tokens=12), threads=1, cache=cache).log
        assert log["notes"] == ["train: 8 of 8 inputs have more than 12 tokens and were cut"]
        with pytest.raises(CorpusError, match="not even a word of each segment"):
            finetune(bert, long, Recipe(epochs=1, max_tokens=4), threads=1, cache=cache)

    def test_a_folder_that_was_not_tuned_here(self, bert):
        with pytest.raises(ModelError, match=r"no finetune\.json"):
            load_tuned(bert)
