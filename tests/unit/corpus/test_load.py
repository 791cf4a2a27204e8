"""`load_corpus`: files, folders and names become a Corpus, or an error that says what to do."""

from pathlib import Path

import pytest

from vestige.corpus.load import load_corpus
from vestige.corpus.store import read_task, save_task
from vestige.corpus.types import Corpus, Sentence, Span
from vestige.errors import CorpusError, StorageError

TREE = "1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_\n\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "mine"


def put(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".").replace("_", "-")).write_text(text)
    return folder


def test_a_file_per_split_becomes_a_corpus_named_after_its_folder(folder):
    put(folder, a__conllu=TREE, b__conllu=TREE * 2)
    corpus = load_corpus({"train": folder / "a.conllu", "test": str(folder / "b.conllu")})
    assert corpus.name == "mine"
    assert {split: len(items) for split, items in corpus.splits.items()} == {"train": 1, "test": 2}
    assert corpus.levels["head"] == "tree"


def test_a_single_file_is_a_training_split(folder):
    put(folder, a__conllu=TREE)
    assert list(load_corpus(folder / "a.conllu").splits) == ["train"]


def test_file_names_in_a_folder_say_which_split_they_are(folder):
    put(folder, en_ud_train__conllu=TREE, en_ud_dev__conllu=TREE, en_ud_test__conllu=TREE, README__md="train")
    assert list(load_corpus(folder).splits) == ["train", "dev", "test"]


def test_a_split_is_a_word_of_the_file_name_and_not_a_part_of_one(folder):
    put(folder, latest_train__conllu=TREE)
    assert list(load_corpus(folder).splits) == ["train"]


def test_two_files_for_one_split_are_refused(folder):
    put(folder, a_train__conllu=TREE, b_train__conllu=TREE)
    with pytest.raises(CorpusError, match=r"both a-train\.conllu and b-train\.conllu say train"):
        load_corpus(folder)


def test_a_folder_without_corpus_files_is_reported(folder):
    put(folder, notes__txt="train")
    with pytest.raises(CorpusError, match=r"no file that ends in \.conllu, \.tsv"):
        load_corpus(folder)


def test_a_path_that_is_not_there_is_reported_with_the_built_in_names(folder):
    with pytest.raises(CorpusError, match=r"no such file or folder, nor a corpus of the catalog .*treebank"):
        load_corpus(folder / "absent")


def test_an_unknown_format_is_answered_with_the_nearest_name():
    with pytest.raises(CorpusError, match="unknown corpus format 'conlu'") as raised:
        load_corpus({"train": "a"}, format="conlu")
    assert raised.value.fix == "did you mean 'conllu'?"


def test_a_format_that_cannot_be_told_is_asked_for(folder):
    put(folder, a__txt="He PRP B-NP\n")
    with pytest.raises(CorpusError, match=r"cannot tell the format of .*a\.txt") as raised:
        load_corpus({"train": folder / "a.txt"})
    assert "conll2000" in raised.value.fix


def test_options_reach_the_reader(folder):
    put(folder, a__txt="He PRP x\n", w__txt="He left\n", l__txt="A B\n")
    corpus = load_corpus({"train": folder / "a.txt"}, format="columns", columns={"pos": 1, "last": -1})
    assert corpus.levels == {"pos": "token", "last": "token"}
    paired = load_corpus({"train": [folder / "w.txt", folder / "l.txt"]}, format="parallel", task="ner")
    assert paired.name == "mine"
    assert paired.task("ner").labels("train") == [("A", "B")]


def test_parallel_files_come_in_pairs(folder):
    with pytest.raises(CorpusError, match="parallel files come in pairs"):
        load_corpus({"train": "words.txt"}, format="parallel")


def test_an_empty_file_is_an_empty_corpus(folder):
    put(folder, a__conllu="\n\n")
    with pytest.raises(CorpusError, match="corpus 'mine' has no sentences"):
        load_corpus(folder / "a.conllu")


def test_a_dev_split_can_be_cut_while_loading(folder):
    put(folder, a__tsv="sentence\tlabel\n" + "".join(f"number {i}\t{i % 2}\n" for i in range(60)))
    corpus = load_corpus({"train": folder / "a.tsv"}, dev=0.2, seed=1)
    assert {*corpus.splits} == {"train", "dev"}
    assert len(corpus["train"]) + len(corpus["dev"]) == 60
    assert load_corpus({"train": folder / "a.tsv"}, dev=0.2, seed=1) == corpus


def test_sentence_ids_survive_another_order_of_the_file(folder):
    rows = [f"number {i}\t{i % 2}\n" for i in range(9)]
    put(folder, a__tsv="sentence\tlabel\n" + "".join(rows), b__tsv="sentence\tlabel\n" + "".join(rows[::-1]))
    a, b = (load_corpus(folder / name)["train"] for name in ("a.tsv", "b.tsv"))
    assert {s.id: s.words for s in a} == {s.id: s.words for s in b}


def test_a_repeated_sentence_id_names_both_places(folder):
    put(folder, a__conllu=f"# sent_id = x\n{TREE}# sent_id = x\n{TREE}")
    with pytest.raises(CorpusError, match=r"'x' occurs twice \(.*a\.conllu:1 and .*a\.conllu:4\)"):
        load_corpus(folder / "a.conllu")


@pytest.mark.parametrize("name", ["upos", "head"])
def test_a_task_written_for_another_process_is_read_back_as_it_was(folder, tmp_path, name):
    put(folder, train__conllu=TREE.replace("Yes", "Ja – naïve 漢"), test__conllu=TREE)
    task = load_corpus(folder).task(name)
    path = save_task(task, tmp_path / "tasks")
    again = read_task(path)
    assert (again.name, again.level, again.labels("train")) == (task.name, task.level, task.labels("train"))
    assert [s.words for s in again.corpus["train"]] == [s.words for s in task.corpus["train"]]
    assert again.digest(["train", "test"]) == task.digest(["train", "test"])
    assert save_task(task, tmp_path / "tasks") == path
    path.write_bytes(path.read_bytes().replace(b"Yes", b"Yet"))
    with pytest.raises(StorageError, match="damaged"):
        read_task(path)
    assert read_task(save_task(task, tmp_path / "tasks")).digest(["test"]) == task.digest(["test"])


def test_what_labels_are_read_with_goes_along(folder, tmp_path):
    put(folder, train__conllu=TREE)
    task = load_corpus(folder).task("head")
    (sentence, *_), again = task.corpus["train"], read_task(save_task(task, tmp_path))
    kept = again.corpus["train"][0].annotations
    assert kept == {name: sentence.annotations[name] for name in ("head", "deprel", "upos", "xpos")}
    put(folder, train__conllu=TREE.replace("root", "other"))
    changed = load_corpus(folder).task("head")
    assert changed.labels("train") == task.labels("train")
    assert changed.digest(["train"]) != task.digest(["train"])


def test_an_answer_goes_along_with_its_passage(tmp_path):
    passage = {"question": "Who?", "context": "Ann came.", "answer_texts": ("Ann",), "answer_starts": (0,)}
    sentence = Sentence("1", ("Who?",), ("Ann", "came."), {"answer": (Span(1, 2, ("answer",)),), **passage})
    task = Corpus("c", {"train": (sentence,)}, {"answer": "span"}).task("answer")
    assert read_task(save_task(task, tmp_path)).corpus["train"][0].annotations == sentence.annotations
