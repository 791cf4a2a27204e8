"""One sentence of every pair alone: which, how often, and in a study."""

import pytest
import tiny

from vestige.corpus.derive import derive_task
from vestige.corpus.load import load_corpus
from vestige.corpus.types import Corpus, Sentence, Span
from vestige.errors import CorpusError
from vestige.study.run import Study

PAIRS = (
    ("It rained all day .", "The street was wet ."),
    ("It rained all day .", "Nobody saw a cloud ."),
    ("A fox slept .", "The street was wet ."),
    ("A dog barked .", "It was loud ."),
)


def pairs(*more: Sentence) -> Corpus:
    labels = {"nli": "yes", "part": (Span(0, 1, ("x",)),)}
    made = [
        Sentence(f"p{i}", tuple(one.split()), tuple(two.split()), labels, f"f:{i}")
        for i, (one, two) in enumerate(PAIRS)
    ]
    levels = {"nli": "sentence_pair", "part": "span"}
    return Corpus("weather", {"train": (*made, *more), "dev": tuple(made[2:])}, levels)


@pytest.mark.parametrize(
    ("task", "train", "told"),
    [
        ("first_sentence", {"p0": 0, "p2": 0, "p3": 0}, "train: 3 different sentences of 4 pairs"),
        ("second_sentence", {"p0": 1, "p1": 1, "p3": 1}, "train: 3 different sentences of 4 pairs"),
    ],
)
def test_every_different_sentence_of_one_side_comes_once_in_the_old_order(task, train, told):
    made = derive_task(pairs(), task)
    assert {s.id: s.words for s in made["train"]} == {
        id_: tuple(PAIRS[int(id_[1])][side].split()) for id_, side in train.items()
    }
    assert [s.id for s in made["dev"]] == ["p2", "p3"]
    assert all(s.second == () and s.annotations == {task: None} for items in made.splits.values() for s in items)
    assert made.levels == {task: "text"} and told in made.notes
    assert made.name == f"weather+{task}" and made["train"][0].source == "f:0"


def test_sentences_of_no_pair_are_left_out_and_a_corpus_of_none_is_refused():
    single = Sentence("single", ("Hm", "."), (), {"nli": "no", "part": ()})
    assert "single" not in {s.id for s in derive_task(pairs(single), "first_sentence")["train"]}
    with pytest.raises(CorpusError, match="'treebank' has none") as raised:
        derive_task(load_corpus("treebank"), "second_sentence")
    assert "mnli" in raised.value.fix


def test_options_are_refused():
    with pytest.raises(CorpusError, match="no option 'lengths'; it has none"):
        derive_task(pairs(), "first_sentence", lengths=None)


def test_a_study_compares_on_pairs_and_on_one_sentence_of_them(tmp_path):
    """Premises are of the domain of the pairs that they come from, for their files are the same."""
    lines = [f"{i % 2}\tThe fox {i} jumped .\tNo dog jumped {i} times ." for i in range(30)]
    for split, part in (("train", lines[:16]), ("dev", lines[16:])):
        (tmp_path / f"{split}.tsv").write_text("\n".join(["label\tone\ttwo", *part]) + "\n")
    files = {split: str(tmp_path / f"{split}.tsv") for split in ("train", "dev")}
    nli = {
        "files": files,
        "format": "tsv",
        "options": {"sentence": "one", "second": "two", "label": "label", "task": "nli"},
    }
    tiny.save("bert", tmp_path / "bert", layers=2)
    recipe = {"epochs": 1, "batch": 8, "max_tokens": 24}
    tuned = {"finetune": {"of": "base", "task": "nli/nli", "recipe": recipe}}
    tasks = ["nli/nli", "premises/first_sentence", "trees/upos"]
    raw = {
        "study": "pairs",
        "models": {"base": str(tmp_path / "bert"), "tuned": tuned},
        "corpora": {
            "nli": nli,
            "premises": {**nli, "derive": "first_sentence"},
            "trees": {"name": "treebank", "sample": {"train": 2, "dev": 14}},
        },
        "analyses": [{"similarity": {"tasks": tasks, "split": "dev", "measures": ["rsa"], "n": None}}],
    }
    run = Study.from_dict(raw, tmp_path / "run", cache=tmp_path / "cache").run()
    found = run.comparisons.drop_duplicates("corpus").set_index("corpus")
    assert set(found["other_corpus"]) == {"trees"}
    assert (found["items"]["nli"], found["items"]["premises"]) == (14 * 11, 14 * 5)


def test_questions_and_passages_of_squad(data):
    squad = load_corpus({"dev": data / "squad11" / "dev-v1.1.json"}, format="squad")
    questions, passages = (derive_task(squad, f"{side}_sentence")["dev"] for side in ("first", "second"))
    assert len({s.words for s in squad["dev"]}) == len(questions) > 0.95 * len(squad["dev"])
    assert len({s.second for s in squad["dev"]}) == len(passages) < 0.5 * len(squad["dev"])
    assert sum(s.words[-1].endswith("?") for s in questions) > 0.9 * len(questions)
    assert sum(len(s.words) for s in passages) > 80 * len(passages)
