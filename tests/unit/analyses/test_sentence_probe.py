"""The sentence probe on made-up and tiny models: rows, items, poolings, a study, and bad input."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import sentence_vectors
import tiny
import torch
from compared import compare_items
from pydantic import TypeAdapter
from scipy import stats

from vestige.analyses import find_analysis
from vestige.analyses.base import Inputs, check_rows
from vestige.analyses.sentence_probe import SentenceProbe
from vestige.checksums import seal
from vestige.comparison.differences import Settings
from vestige.comparison.layer_groups import cross_pooling, group_differences, of_pooling
from vestige.corpus.control import sentence_baselines, sentence_types
from vestige.corpus.derive import derive_task
from vestige.corpus.load import load_corpus
from vestige.corpus.types import Corpus, Sentence
from vestige.errors import AnalysisError
from vestige.models.tokens.align import SPECIAL
from vestige.representations.extract import represent
from vestige.study.compare import compare

QUICK = Settings(resamples=199)


@pytest.fixture(scope="module")
def made():
    return sentence_vectors.corpus()


@pytest.fixture(scope="module")
def inputs(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reps")
    mean = sentence_vectors.represent(folder, made, sentence_vectors.planted(2), pooling="sentence_mean")
    first = sentence_vectors.represent(folder, made, sentence_vectors.planted(1))
    return replace(first, poolings={**first.poolings, **mean.poolings})


def frame(outcome, metric):
    rows = pd.DataFrame(outcome.rows)
    return rows[rows["metric"] == metric]


def relabelled(made: Corpus, split: str, change) -> Corpus:
    """The labels of a split changed: change(number, label)."""
    sentences = tuple(
        replace(s, annotations={"label": change(number, s.annotations["label"])})
        for number, s in enumerate(made[split])
    )
    return Corpus("made-up", {**made.splits, split: sentences}, made.levels)


def test_is_found_by_name_and_takes_labels_of_sentences_and_pairs():
    assert find_analysis("sentence_probe") is SentenceProbe
    assert SentenceProbe.levels == ("sentence", "sentence_pair")


def test_poolings_are_given_as_a_list_or_joined_and_kept_as_text():
    both = SentenceProbe(pooling=["cls", "sentence_mean"])
    assert both == SentenceProbe(pooling="cls+sentence_mean")
    assert both.poolings == ("cls", "sentence_mean")
    assert both.parameters()["pooling"] == "cls+sentence_mean"
    assert TypeAdapter(SentenceProbe).validate_python(both.parameters()) == both
    assert SentenceProbe().poolings == ("cls",)


@pytest.mark.parametrize(
    ("pooling", "match"), [("last", "'last' is no pooling"), (("cls", "cls"), "each once"), ((), "one or more")]
)
def test_other_poolings_are_refused(pooling, match):
    with pytest.raises(AnalysisError, match=match):
        SentenceProbe(pooling=pooling)


@pytest.mark.parametrize("protocol", ["converged", "senteval"])
def test_rows_have_every_layer_and_the_baselines(made, inputs, protocol):
    outcome = SentenceProbe(protocol=protocol, seeds=2).run(inputs)
    for metric in ("accuracy", "control_accuracy", "selectivity"):
        rows = frame(outcome, metric)
        seeds = 1 if metric == "accuracy" and protocol == "converged" else 2
        assert rows["layer"].value_counts().to_dict() == {0: seeds, 1: seeds, 2: seeds}
        assert set(rows["n"]) == {100}
    labels = [s.annotations["label"] for s in made["test"]]
    train = [s.annotations["label"] for s in made["train"]]
    most = max("IO", key=train.count)
    assert frame(outcome, "majority")["value"].item() == labels.count(most) / 100
    assert len(frame(outcome, "control_majority")) == 2
    assert {row["metric"] for row in outcome.rows if row.get("layer") == 1} >= {"f1", "recall", "precision", "l2"}
    assert ("epochs" in set(pd.DataFrame(outcome.rows)["metric"])) == (protocol == "senteval")


def test_items_are_sentences_that_add_up_and_pair(made, inputs):
    outcome = SentenceProbe(seeds=2).run(inputs)
    items = pd.DataFrame(outcome.items)
    task = items[items["subset"] == "task"]
    assert list(task[task["layer"] == 0]["sentence"][:100]) == [s.id for s in made["test"]]
    assert set(items["word"]) == {-1} and set(items["pooling"]) == {"cls"}
    accuracy = frame(outcome, "accuracy").groupby("layer")["value"].mean()
    np.testing.assert_allclose(task.groupby("layer")["correct"].mean(), accuracy)
    table = compare_items(items, [items], QUICK)
    assert (table["difference"] == 0).all() and (table["sentences"] == 100).all()
    assert set(table["metric"]) == {"accuracy", "control_accuracy", "selectivity"}


def test_of_several_poolings_each_is_what_it_is_alone(inputs):
    several = SentenceProbe(pooling=("cls", "sentence_mean"), seeds=1).run(inputs)
    rows, items = pd.DataFrame(several.rows), pd.DataFrame(several.items)
    accuracy = rows[rows["metric"] == "accuracy"]
    first, second = (accuracy[accuracy["pooling"] == p].set_index("layer")["value"] for p in ("cls", "sentence_mean"))
    assert min(first[1], second[2]) >= 0.98 and max(first[2], second[1]) < 0.7
    assert rows["pooling"].notna().all() and len(rows[rows["metric"] == "majority"]) == 2
    assert list(items["subset"].unique()) == ["task", "control"]
    alone = pd.DataFrame(SentenceProbe(seeds=1).run(inputs).items)
    pd.testing.assert_frame_equal(of_pooling(items, "cls").reset_index(drop=True), alone, check_dtype=False)
    assert len(compare_items(items, [items], QUICK)) == 18
    crossed = cross_pooling(items, [items], settings=QUICK).set_index("layer")["difference"]
    assert crossed[1] > 0.3 and crossed[2] < -0.3


@pytest.mark.parametrize(
    "settings", [{}, {"probe": "mlp"}, {"protocol": "senteval"}, {"control": "none", "pooling": "cls+sentence_mean"}]
)
def test_all_that_is_declared_is_reported(inputs, settings):
    analysis = SentenceProbe(**{"seeds": 1, **settings})
    outcome = analysis.run(inputs)
    check_rows(analysis, outcome)
    assert {metric.name for metric in analysis.given} == {row["metric"] for row in outcome.rows}
    assert not outcome.absent


def test_a_random_twin_needs_no_control(inputs):
    analysis = SentenceProbe()
    outcome = analysis.run(replace(inputs, baseline=True))
    check_rows(analysis, outcome)
    assert set(outcome.absent) == {"control_accuracy", "selectivity", "control_majority"}
    assert not len(frame(outcome, "control_accuracy")) and len(frame(outcome, "accuracy")) == 3


def test_senteval_seeds_start_from_other_weights_and_a_given_weight_decay_is_the_only_one(inputs):
    outcome = SentenceProbe(protocol="senteval", seeds=2, l2=0.003, control="none").run(inputs)
    assert set(frame(outcome, "l2")["value"]) == {0.003}
    items = pd.DataFrame(outcome.items)
    one, two = (items[items["probe_seed"] == seed]["log_probability"].to_numpy() for seed in (0, 1))
    assert not np.allclose(one, two, atol=1e-4)


def test_types_of_sentences_and_what_guessing_from_them_gives():
    def sentence(id_, text, label):
        return Sentence(id_, tuple(text.split()), annotations={"label": label})

    train = [sentence("1", "The cat", "A"), sentence("2", "The dog", "A"), sentence("3", "Who came", "B")]
    held = [sentence("4", "The end", "B"), sentence("5", "Who knows", "B"), sentence("6", "Nobody", "A")]
    made = Corpus("c", {"train": tuple(train), "test": tuple(held)}, {"label": "sentence"})
    assert sentence_types(held, "first_word") == ["The", "Who", "Nobody"]
    assert sentence_types(held, "sentence") == ["4", "5", "6"]
    assert sentence_baselines(made.task("label"), "test") == pytest.approx(
        {"majority": 1 / 3, "first_word_majority": 2 / 3, "unseen_first_word_share": 1 / 3}
    )


def refusal(made: Corpus, tmp_path, vector=sentence_vectors.nothing, **settings) -> str:
    """What the probe says of a corpus it refuses."""
    inputs = sentence_vectors.represent(tmp_path, made, vector, layers=1)
    with pytest.raises(AnalysisError) as raised:
        SentenceProbe(**settings).run(inputs)
    assert raised.value.fix
    return str(raised.value)


def test_train_of_one_class_is_refused(made, tmp_path):
    assert "only the label 'I' in train" in refusal(relabelled(made, "train", lambda n, label: "I"), tmp_path)


@pytest.mark.parametrize("split", ["dev", "test"])
def test_a_class_that_train_lacks_is_refused(made, tmp_path, split):
    said = refusal(relabelled(made, split, lambda n, label: label if n else "X"), tmp_path)
    assert f"1 sentences of '{split}' have a label that train lacks, such as 'X'" in said


def test_numbers_are_no_classes(made, tmp_path):
    numbers = relabelled(replace(made, splits={"train": made["train"]}), "train", lambda n, label: n / 2)
    splits = dict.fromkeys(("train", "dev", "test"), numbers["train"])
    assert "the label 0.0 is no class" in refusal(replace(numbers, splits=splits), tmp_path)


def test_a_dev_of_few_sentences_is_refused_where_it_decides(made, tmp_path):
    few = replace(made, splits={**made.splits, "dev": made["dev"][:4]})
    assert "has 4 sentences in dev" in refusal(few, tmp_path / "refused")
    assert "has 4 sentences in dev" in refusal(few, tmp_path / "again", protocol="senteval", l2=0.1)
    given = sentence_vectors.represent(tmp_path / "given", few, sentence_vectors.nothing, layers=1)
    assert SentenceProbe(l2=0.1).run(given).rows


def test_an_empty_split_is_refused(made, tmp_path):
    assert "split 'test' of corpus 'made-up' has nothing to read" in refusal(
        replace(made, splits={**made.splits, "test": ()}), tmp_path
    )


def test_a_sentence_of_which_nothing_is_left_is_named(made, tmp_path):
    inputs = sentence_vectors.represent(tmp_path, made, sentence_vectors.nothing)
    for layer in range(3):
        array = np.load(inputs.representations["dev"].folder / f"layer{layer:02d}.npy", mmap_mode="r+")
        array[4] = 0.0
        array.flush()
    seal(inputs.representations["dev"].folder, inputs.representations["dev"].folder)
    with pytest.raises(AnalysisError, match="nothing is left of sentence dev4"):
        SentenceProbe().run(inputs)


def test_vectors_of_words_are_refused(made, tiny_encoder, cache):
    found = {s: represent(tiny_encoder("bert"), x[:20], ("last",), cache=cache)["last"] for s, x in made.splits.items()}
    short = made.limit(20)
    with pytest.raises(AnalysisError, match="expected a vector for each of 20 sentences"):
        SentenceProbe().run(Inputs(short.task("label"), {"cls": found}, "tiny"))


@pytest.mark.parametrize("family", ["bert", "xlnet", "gpt2"])
def test_the_mean_of_words_leaves_special_tokens_out(made, tiny_encoder, cache, family):
    encoder = tiny_encoder(family)
    given = (*made["dev"][:6], Sentence("pair", ("a", "dog"), ("nobody", "came")))
    found = represent(encoder, given, ("sentence_word_mean", "sentence_mean"), cache=cache)
    for row, encoded in enumerate(encoder.encode(given)):
        words = [place for place, word in enumerate(encoded.word_of) if word != SPECIAL]
        for layer, states in enumerate(encoder.hidden_states([encoded])):
            for pooling, places in (("sentence_word_mean", words), ("sentence_mean", range(len(encoded.ids)))):
                expected = states[0, list(places)].mean(0)
                np.testing.assert_allclose(found[pooling].layer(layer)[row], expected, atol=1e-4)


def test_a_study_compares_both_poolings_of_tuned_and_base(made, tmp_path):
    base = tiny.model("bert")
    tuned = deepcopy(base)
    with torch.no_grad():
        tuned.get_input_embeddings().weight.mul_(-1.5)
    run = compare(
        base,
        tuned,
        made.limit(30),
        analyses=[{"sentence_probe": {"pooling": ["cls", "sentence_mean"], "seeds": 1}}],
        tasks=["label"],
        tokenizer=tiny.tokenizer("bert"),
        on_unknown="allow",
        random_twin=False,
        folder=tmp_path / "run",
        cache=tmp_path / "cache",
    )
    results = run.tables.results
    assert set(results["pooling"]) == {"cls", "sentence_mean"} and results["subset"].isna().all()
    cells = results.drop_duplicates("model").set_index("model")["cell"]
    before, after = (run.tables.items(cells[model]) for model in ("base", "tuned"))
    compared = run.tables.comparisons
    for pooling in ("cls", "sentence_mean"):
        alone = compare_items(of_pooling(before, pooling), [of_pooling(after, pooling)])
        mine = compared[compared["pooling"] == pooling].set_index(["metric", "layer"])["difference"]
        np.testing.assert_allclose(
            mine.loc[list(zip(alone["metric"], alone["layer"], strict=True))], alone["difference"]
        )
    halves = group_differences(of_pooling(before, "sentence_mean"), [of_pooling(after, "sentence_mean")])
    assert list(halves["group"].unique()) == ["0-1", "2-3"] and (halves["sentences"] == 30).all()
    assert len(cross_pooling(before, [after])) == 4


def test_bigram_shift_and_length_of_real_sentences(data, minilm, tmp_path):
    """A sentence's mean tells its length; MiniLM, tuned for sentence similarity, hardly tells swapped words."""
    treebank = load_corpus({"train": str(data / "ud_ewt/en_ewt-ud-dev.conllu")}, dev=0.15).hold_out("test", 0.3, seed=1)
    poolings = ("cls", "sentence_mean")
    accuracy = {}
    for task in ("bigram_shift", "sentence_length"):
        corpus = derive_task(treebank, task).sample({"train": 160, "dev": 30, "test": 80})
        found = {s: represent(minilm, x, poolings, cache=tmp_path) for s, x in corpus.splits.items()}
        inputs = Inputs(corpus.task(task), {p: {s: r[p] for s, r in found.items()} for p in poolings}, "minilm")
        outcome = SentenceProbe(pooling=poolings, control="none").run(inputs)
        rows = frame(outcome, "accuracy")
        assert len(rows) == 14 and set(rows["n"]) == {80}
        mean = rows[rows["pooling"] == "sentence_mean"].set_index("layer")["value"]
        accuracy[task] = mean, frame(outcome, "majority")["value"].iloc[0]
    low, high = stats.binom.interval(0.9999, 80, 0.5)
    shifts, _ = accuracy["bigram_shift"]
    assert low <= 80 * shifts.min() and 80 * shifts.max() <= high
    lengths, majority = accuracy["sentence_length"]
    assert lengths.max() > majority + 0.2
