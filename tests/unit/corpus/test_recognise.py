"""Files of the user's own are told apart by their content."""

import pytest

from vestige.corpus.load import load_corpus
from vestige.errors import CorpusError

TAGGED = "The\tDET\nfox\tNOUN\nruns\tVERB\n\nA\tDET\ndog\tNOUN\n\n#\tSYM\none\tNUM\n\n"
CONLLU = "1\tfox\tfox\tNOUN\tNN\t_\t0\troot\t_\t_\n\n"


@pytest.mark.parametrize("suffix", [".txt", ".conll", ".bio", ".tsv"])
def test_a_word_and_a_tag_a_line(tmp_path, suffix):
    (tmp_path / f"words{suffix}").write_text(TAGGED)
    corpus = load_corpus(tmp_path / f"words{suffix}")
    assert corpus.levels == {"tag": "token"}
    assert [s.words for s in corpus["train"]] == [("The", "fox", "runs"), ("A", "dog"), ("#", "one")]
    assert corpus["train"][1].annotations["tag"] == ("DET", "NOUN")


def test_blanks_comments_and_a_header_are_known_for_what_they_are(tmp_path):
    (tmp_path / "a.bio").write_text("# a comment\nEU B-ORG\nrejects O\n\nPeter B-PER\n")
    corpus = load_corpus(tmp_path / "a.bio")
    assert [s.words for s in corpus["train"]] == [("EU", "rejects"), ("Peter",)]
    (tmp_path / "b.txt").write_text("token\tner\nEU\tB-ORG\n\nPeter\tB-PER\n")
    corpus = load_corpus(tmp_path / "b.txt")
    assert corpus.levels == {"ner": "token"} and [s.words for s in corpus["train"]] == [("EU",), ("Peter",)]


def test_treebanks_and_labelled_sentences_keep_their_readers(tmp_path):
    (tmp_path / "trees.txt").write_text(CONLLU)
    assert "head" in load_corpus(tmp_path / "trees.txt").levels
    (tmp_path / "opinions.txt").write_text("sentence\tlabel\nGood .\tyes\n\nBad .\tno\n")
    assert load_corpus(tmp_path / "opinions.txt").levels == {"label": "sentence"}


def test_a_folder_of_several_kinds_gives_one_of_them(tmp_path):
    for split in ("train", "dev", "test"):
        (tmp_path / f"en-ud-{split}.conllu").write_text(CONLLU)
        (tmp_path / f"en-ud-{split}.txt").write_text("The fox.\n")
    assert "head" in load_corpus(tmp_path).levels
    words = tmp_path / "words"
    words.mkdir()
    for split in ("train", "dev", "test"):
        (words / f"{split}.bio").write_text(TAGGED)
    assert {*load_corpus(words).splits} == {"train", "dev", "test"}


def test_more_columns_and_plain_text_need_a_word_from_the_user(tmp_path):
    (tmp_path / "a.conll").write_text("EU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\nPeter NNP B-NP B-PER\n")
    with pytest.raises(CorpusError, match="4 columns") as raised:
        load_corpus(tmp_path / "a.conll")
    assert "columns={tag: 3}" in raised.value.fix
    assert load_corpus(tmp_path / "a.conll", format="columns", columns={"ner": 3}).levels == {"ner": "token"}
    for text in ("The fox runs .\n\nA dog .\n", "one\n\ntwo\n", "The\tDET\nfox\tNOUN\n", ""):
        (tmp_path / "b.txt").write_text(text)
        with pytest.raises(CorpusError, match="cannot tell the format"):
            load_corpus(tmp_path / "b.txt")


def test_test_and_dev_are_cut_off_train(tmp_path):
    (tmp_path / "a.tsv").write_text("".join(f"word{i}\tA\nend\tB\n\n" for i in range(100)))
    corpus = load_corpus(tmp_path / "a.tsv", test=0.2, dev=0.1)
    assert list(corpus.splits) == ["train", "dev", "test"] and sum(map(len, corpus.splits.values())) == 100
    assert any(note.startswith("test: ") for note in corpus.notes)
