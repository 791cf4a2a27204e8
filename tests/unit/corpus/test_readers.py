"""Every reader on small files: what it takes, what it leaves out, and what its complaints name."""

from pathlib import Path

import pytest

from vestige.corpus.readers.columns import read_columns, read_conll2000, read_pmb
from vestige.corpus.readers.conllu import read_conllu
from vestige.corpus.readers.parallel import read_parallel
from vestige.corpus.readers.text import read_lines
from vestige.corpus.readers.tsv import read_tsv
from vestige.errors import CorpusError


@pytest.fixture
def write(tmp_path: Path):
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def rows(*lines: str) -> str:
    """CoNLL-U lines from `id form lemma upos xpos head deprel`, fields between spaces."""
    made = []
    for line in lines:
        id_, form, lemma, upos, xpos, head, deprel = line.split()
        made.append("\t".join((id_, form, lemma, upos, xpos, "_", head, deprel, "_", "_")))
    return "\n".join(made) + "\n\n"


DOGS = rows("1 Dogs dog NOUN NNS 2 nsubj", "2 bark bark VERB VBP 0 root")


class TestText:
    def test_windows_and_old_mac_line_ends_and_a_bom_are_accepted(self, write):
        assert read_lines(write("a", b"\xef\xbb\xbfone\r\ntwo\rthree\n")) == ["one", "two", "three", ""]

    def test_only_line_ends_end_a_line(self, write):
        assert read_lines(write("a", "one\u2028still\x0cone\x85\ntwo")) == ["one\u2028still\x0cone\x85", "two"]

    def test_bytes_that_are_not_utf8_are_reported_with_file_and_line(self, write):
        path = write("latin1.txt", "ab\ncd\ncaf\xe9 au lait\n".encode("latin1"))
        with pytest.raises(CorpusError, match=r"latin1\.txt:3: not UTF-8 \(byte 0xe9 at offset 9\)") as raised:
            read_lines(path)
        assert "iconv" in raised.value.fix

    def test_a_missing_file_and_a_folder_are_named(self, tmp_path):
        with pytest.raises(CorpusError, match=r"absent: no such file"):
            read_lines(tmp_path / "absent")
        with pytest.raises(CorpusError, match="a folder, not a file"):
            read_lines(tmp_path)


class TestConllu:
    def test_every_annotation_of_a_tree_is_read(self, write):
        path = write("a.conllu", "# sent_id = s1\n# text = Dogs bark\n" + DOGS)
        (sentence,) = read_conllu(path)
        assert sentence.id == "s1"
        assert sentence.words == ("Dogs", "bark")
        assert sentence.annotations == {
            "upos": ("NOUN", "VERB"),
            "xpos": ("NNS", "VBP"),
            "deprel": ("nsubj", "root"),
            "lemma": ("dog", "bark"),
            "feats": ("_", "_"),
            "head": (2, 0),
        }
        assert sentence.source == f"{path}:1"

    def test_multiword_ranges_and_empty_nodes_are_left_out_and_heads_stay(self, write):
        block = rows(
            "1-2 cannot _ _ _ _ _",
            "1 can can AUX MD 3 aux",
            "2 not not PART RB 3 advmod",
            "3 go go VERB VB 0 root",
            "3.1 gone go VERB VBN _ _",
            "4 home home ADV RB 3 advmod",
        )
        (sentence,) = read_conllu(write("a.conllu", block))
        assert sentence.words == ("can", "not", "go", "home")
        assert sentence.annotations["head"] == (3, 3, 0, 3)
        assert sentence.annotations["xpos"] == ("MD", "RB", "VB", "RB")

    def test_crlf_and_bom_change_nothing(self, write):
        plain = read_conllu(write("a.conllu", DOGS + DOGS))
        other = read_conllu(write("b.conllu", b"\xef\xbb\xbf" + (DOGS + DOGS).replace("\n", "\r\n").encode()))
        assert [(s.id, s.words, s.annotations) for s in plain] == [(s.id, s.words, s.annotations) for s in other]

    def test_a_last_sentence_without_a_blank_line_counts(self, write):
        assert len(read_conllu(write("a.conllu", DOGS + DOGS.rstrip("\n")))) == 2

    def test_a_block_of_comments_alone_is_no_sentence(self, write):
        assert len(read_conllu(write("a.conllu", "# newdoc\n\n" + DOGS + "# end\n"))) == 1

    def test_a_head_that_is_not_given_is_minus_one(self, write):
        (sentence,) = read_conllu(write("a.conllu", rows("1 Hm hm INTJ UH _ _")))
        assert sentence.annotations["head"] == (-1,)

    def test_a_wrong_number_of_columns_is_reported_with_file_and_line(self, write):
        text = DOGS + "# comment\n1\tDogs\tdog\n"
        with pytest.raises(CorpusError, match=r"bad\.conllu:5: expected 10 tab-separated columns, found 3"):
            read_conllu(write("bad.conllu", text))

    @pytest.mark.parametrize(
        ("block", "complaint"),
        [
            (rows("1 Dogs dog NOUN NNS 7 nsubj"), "word 1 has head 7, but there are 1 words"),
            (rows("1 Dogs dog NOUN NNS 0 root", "3 bark bark VERB VBP 1 dep"), "word ids do not count"),
            (rows("1.1 gone go VERB VBN _ _"), "a sentence without words"),
            (rows("one Dogs dog NOUN NNS 0 root"), "one"),
        ],
    )
    def test_broken_trees_are_reported_with_file_and_line(self, write, block, complaint):
        with pytest.raises(CorpusError, match=rf"bad\.conllu:4: .*{complaint}"):
            read_conllu(write("bad.conllu", DOGS + block))


class TestColumns:
    def test_conll2000_gives_pos_and_chunk(self, write):
        first, second = read_conll2000(write("a.txt", "He PRP B-NP\nleft VBD B-VP\n\n. . O\n"))
        assert first.words == ("He", "left")
        assert first.annotations == {"pos": ("PRP", "VBD"), "chunk": ("B-NP", "B-VP")}
        assert second.source.endswith("a.txt:4")

    def test_negative_column_numbers_count_from_the_end(self, write):
        path = write("a.txt", "He x PRP O\nleft VBD O\n")
        (sentence,) = read_columns(path, {"tag": -2, "chunk": -1})
        assert sentence.annotations == {"tag": ("PRP", "VBD"), "chunk": ("O", "O")}

    @pytest.mark.parametrize("column", [2, -3])
    def test_a_line_with_too_few_columns_is_reported_with_file_and_line(self, write, column):
        path = write("short.txt", "a b c\nd e f\n\ng h\n")
        with pytest.raises(CorpusError, match=r"short\.txt:4: expected at least 3 columns, found 2: 'g h'"):
            read_columns(path, {"tag": column})

    def test_the_separator_decides_what_a_column_is(self, write):
        path = write("a.txt", "New York\tLOC\n")
        assert read_columns(path, {"tag": 1}, separator="\t")[0].words == ("New York",)
        assert read_columns(path, {"tag": 2})[0].words == ("New",)

    def test_pmb_splits_words_at_tildes_and_repeats_their_labels(self, write):
        text = "# raw sent = ...\nNew~York\tx\ty\tGPE\tn\tz\t[]\nis\tx\ty\tNOW\ts\\np\tz\t[]\n"
        (sentence,) = read_pmb(write("a.conll", text))
        assert sentence.words == ("New", "York", "is")
        assert sentence.annotations["semtag"] == ("GPE", "GPE", "NOW")
        assert sentence.annotations["ccg"] == ("n", "n", "s\\np")

    def test_a_pmb_word_made_of_tildes_alone_stays_one_word(self, write):
        (sentence,) = read_pmb(write("a.conll", "~\tx\ty\tNIL\t.\tz\t[]\n"))
        assert sentence.words == ("_",)
        assert sentence.annotations["semtag"] == ("NIL",)

    def test_blocks_of_comments_alone_are_no_sentences(self, write):
        assert read_pmb(write("a.conll", "# one\n# two\n\n# three\n")) == []

    def test_crlf_does_not_stick_to_the_last_label(self, write):
        (sentence,) = read_conll2000(write("a.txt", "He PRP B-NP\r\n\r\n"))
        assert sentence.annotations["chunk"] == ("B-NP",)


class TestParallel:
    def test_words_and_labels_meet_line_by_line(self, write):
        words, labels = write("w", "He left\n\nYes\n"), write("l", "PRP VBD\n\nUH\n")
        first, second = read_parallel([words, labels], task="pos")
        assert (first.words, first.annotations) == (("He", "left"), {"pos": ("PRP", "VBD")})
        assert second.source == f"{words}:3"

    def test_a_line_whose_counts_differ_is_reported_in_both_files(self, write):
        words, labels = write("words.txt", "a\nb c\n"), write("labels.txt", "A\nB\n")
        with pytest.raises(CorpusError, match=r"words\.txt:2 has 2 words but .*labels\.txt:2 has 1 labels"):
            read_parallel([words, labels])

    def test_files_of_different_length_are_refused(self, write):
        with pytest.raises(CorpusError, match=r"w has 2 lines but .*l has 1"):
            read_parallel([write("w", "a\nb\n"), write("l", "A\n")])

    def test_a_last_line_end_is_optional(self, write):
        assert len(read_parallel([write("w", "a\nb\n"), write("l", "A\nB")])) == 2


class TestTsv:
    def test_columns_are_found_by_the_header(self, write):
        (sentence,) = read_tsv(write("a.tsv", "label\tsentence\n1\tit 's  charming \n"), task="sst2")
        assert sentence.words == ("it", "'s", "charming")
        assert sentence.annotations == {"sst2": "1"}
        assert sentence.source.endswith("a.tsv:2")

    def test_numbers_choose_columns_of_a_file_without_header(self, write):
        path = write("a.tsv", "gj04\t1\t\tOne more .\ngj04\t0\t*\tOne the .\n")
        sentences = read_tsv(path, sentence=3, label=1)
        assert [(s.words[1], s.annotations["label"]) for s in sentences] == [("more", "1"), ("the", "0")]

    def test_an_unknown_column_is_reported_with_the_header(self, write):
        with pytest.raises(CorpusError, match=r"no column 'sentence' in its header \['text', 'label'\]"):
            read_tsv(write("a.tsv", "text\tlabel\nhello\t1\n"))

    def test_a_short_row_is_reported_with_file_and_line(self, write):
        path = write("short.tsv", "sentence\tlabel\nfine\t1\n\nonly a sentence\n")
        with pytest.raises(CorpusError, match=r"short\.tsv:4: expected at least 2 tab-separated columns, found 1"):
            read_tsv(path)

    def test_an_empty_sentence_is_reported_with_file_and_line(self, write):
        with pytest.raises(CorpusError, match=r"a\.tsv:2: an empty sentence"):
            read_tsv(write("a.tsv", "sentence\tlabel\n \t1\n"))
