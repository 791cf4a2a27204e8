"""Sentences, corpora, tasks: what a corpus refuses, and what its splits and ids promise."""

import pickle
import random

import pytest

from vestige.corpus.store import read_task, save_task
from vestige.corpus.types import Corpus, Sentence, Span, SpanPair, stable_ids, words_digest
from vestige.errors import CorpusError


def sentence(id_: str, words: str = "a b", tags: str = "A B", **more) -> Sentence:
    return Sentence(id_, tuple(words.split()), annotations={"tag": tuple(tags.split())}, **more)


def corpus(train: int = 200, **more) -> Corpus:
    splits = {"train": tuple(sentence(f"s{i}") for i in range(train)), **more}
    return Corpus("toy", splits, {"tag": "token"})


class TestWhatACorpusRefuses:
    @pytest.mark.parametrize("splits", [{}, {"train": ()}, {"train": (), "test": ()}])
    def test_no_sentences_at_all(self, splits):
        with pytest.raises(CorpusError, match="corpus 'toy' has no sentences"):
            Corpus("toy", splits, {"tag": "token"})

    def test_one_id_for_two_sentences_of_a_split(self):
        twice = (sentence("x", source="a.conllu:1"), sentence("x", source="a.conllu:9"))
        with pytest.raises(CorpusError, match=r"'x' occurs twice \(a\.conllu:1 and a\.conllu:9\)"):
            Corpus("toy", {"train": twice}, {"tag": "token"})

    def test_more_labels_than_words(self):
        wrong = sentence("x", "a b", "A B C", source="f.txt:7")
        with pytest.raises(CorpusError, match=r"f\.txt:7: 2 words but 3 labels of 'tag'"):
            Corpus("toy", {"train": (wrong,)}, {"tag": "token"})

    def test_a_sentence_without_the_annotation(self):
        with pytest.raises(CorpusError, match="sentence x: no annotation 'head'"):
            Corpus("toy", {"train": (sentence("x"),)}, {"tag": "token", "head": "tree"})

    @pytest.mark.parametrize("head", [None, "_", "1", 1.0, True])
    def test_a_head_that_is_no_whole_number(self, head):
        wrong = Sentence("x", ("a", "b"), annotations={"head": (0, head)})
        with pytest.raises(CorpusError, match=r"in 'head' the head of word 2, 'b', is "):
            Corpus("toy", {"train": (wrong,)}, {"head": "tree"})

    def test_a_sentence_without_words(self):
        with pytest.raises(CorpusError, match="a sentence without words"):
            Corpus("toy", {"train": (sentence("x", "", ""),)}, {"tag": "token"})

    def test_an_unknown_split_and_an_unknown_task_are_answered_with_those_there_are(self):
        with pytest.raises(CorpusError, match="no split 'dev'; it has train") as raised:
            corpus()["dev"]
        assert "hold_out" in raised.value.fix
        with pytest.raises(CorpusError, match="no task 'pos'; its tasks: tag"):
            corpus().task("pos")

    def test_the_complaint_survives_the_way_between_processes(self):
        with pytest.raises(CorpusError) as raised:
            corpus().task("pos")
        again = pickle.loads(pickle.dumps(raised.value))
        assert (type(again), str(again), again.fix) == (CorpusError, str(raised.value), raised.value.fix)


class TestStableIds:
    def test_equal_texts_are_told_apart_by_their_occurrence(self):
        first, other, second, third = stable_ids(["same", "other", "same", "same"])
        assert (second, third) == (f"{first}-2", f"{first}-3")
        assert other != first

    def test_ids_survive_reading_again_and_in_another_order(self):
        texts = [f"text {i}" for i in range(50)]
        ids = dict(zip(texts, stable_ids(texts), strict=True))
        shuffled = random.Random(0).sample(texts, len(texts))
        assert dict(zip(shuffled, stable_ids(shuffled), strict=True)) == ids


class TestHoldOut:
    def test_the_parts_are_disjoint_and_nothing_is_lost(self):
        before, after = corpus(), corpus().hold_out("dev", 0.25, seed=3)
        kept, held = ({s.id for s in after[split]} for split in ("train", "dev"))
        assert not kept & held
        assert kept | held == {s.id for s in before["train"]}
        assert 25 < len(held) < 75

    def test_the_same_seed_cuts_the_same_sentences_whatever_their_order(self):
        forward = corpus()
        backward = Corpus("toy", {"train": forward["train"][::-1]}, {"tag": "token"})
        held = {s.id for s in forward.hold_out("dev", 0.25, seed=3)["dev"]}
        assert {s.id for s in backward.hold_out("dev", 0.25, seed=3)["dev"]} == held
        assert {s.id for s in forward.hold_out("dev", 0.25, seed=4)["dev"]} != held

    def test_other_splits_and_the_order_within_a_split_stay(self):
        test = (sentence("t"),)
        after = corpus(test=test).hold_out("dev", 0.25)
        assert after["test"] == test
        numbers = [int(s.id[1:]) for s in after["train"]]
        assert numbers == sorted(numbers)

    def test_what_shares_a_text_stays_together(self):
        pairs = [
            Sentence(f"p{number}", (f"premise{number // 3}",), (f"hypothesis{number}",), {"t": "x"})
            for number in range(300)
        ]
        cut = Corpus("c", {"train": tuple(pairs)}, {"t": "sentence_pair"}).hold_out("dev", 0.25)
        premises = [{s.words for s in cut[split]} for split in ("train", "dev")]
        assert not premises[0] & premises[1]
        assert 40 < len(cut["dev"]) < 110

    @pytest.mark.parametrize("annotation", ["context", "pair"])
    def test_so_do_questions_about_a_passage_and_halves_of_a_minimal_pair(self, annotation):
        asked = [Sentence(f"q{n}", (f"w{n}",), (), {"t": "x", annotation: f"shared {n // 2}"}) for n in range(200)]
        cut = Corpus("c", {"train": tuple(asked)}, {"t": "sentence"}).hold_out("dev", 0.25)
        shared = [{s.annotations[annotation] for s in cut[split]} for split in ("train", "dev")]
        assert not shared[0] & shared[1] and all(shared)

    def test_a_text_that_all_share_parts_them_like_any_others(self):
        asked = [Sentence(f"p{n}", (f"w{n}",), ("is", "it", "so", "?"), {"t": "x"}) for n in range(100)]
        cut = Corpus("c", {"train": tuple(asked)}, {"t": "sentence_pair"}).hold_out("dev", 0.3)
        assert 15 < len(cut["dev"]) < 45

    def test_texts_shared_over_a_chain_of_pairs_count_too(self):
        chain = [Sentence(f"p{n}", (f"s{n}",), (f"s{n + 1}",), {"t": "x"}) for n in range(50)]
        alone = [Sentence(f"a{n}", (f"b{n}",), (f"c{n}",), {"t": "x"}) for n in range(50)]
        cut = Corpus("c", {"train": (*chain, *alone)}, {"t": "sentence_pair"}).hold_out("dev", 0.3)
        assert sum(s.id.startswith("p") for s in cut["dev"]) in (0, 50)

    def test_the_cut_is_noted(self):
        assert "cut from train (fraction 0.25, seed 3)" in corpus().hold_out("dev", 0.25, seed=3).notes[-1]

    def test_a_split_that_is_there_is_not_overwritten(self):
        with pytest.raises(CorpusError, match="already has a split 'dev'"):
            corpus(dev=(sentence("d"),)).hold_out("dev", 0.25)

    @pytest.mark.parametrize("fraction", [0.0, 1.0])
    def test_an_empty_side_is_refused(self, fraction):
        with pytest.raises(CorpusError, match="leaves one side empty"):
            corpus().hold_out("dev", fraction)


class TestCorpusAndTask:
    def test_limit_keeps_the_first_sentences_of_every_split_and_notes_it(self):
        small = corpus(test=tuple(sentence(f"t{i}") for i in range(3))).limit(5)
        assert [s.id for s in small["train"]] == ["s0", "s1", "s2", "s3", "s4"]
        assert len(small["test"]) == 3
        assert "first 5 sentences" in small.notes[-1]

    def test_labels_are_counted_in_train_alone(self):
        task = corpus(train=4, test=(sentence("t", "c", "C"),)).task("tag")
        assert task.label_counts == {"A": 4, "B": 4}

    def test_labels_of_sentences_are_counted_whole(self):
        items = tuple(
            Sentence(str(i), ("a",), annotations={"mood": mood}) for i, mood in enumerate(("good", "bad", "good"))
        )
        assert Corpus("toy", {"train": items}, {"mood": "sentence"}).task("mood").label_counts == {"good": 2, "bad": 1}

    def test_the_task_digest_sees_labels_and_not_words(self):
        def digest(words: str, tags: str) -> str:
            return (
                Corpus("toy", {"train": (sentence("x", words, tags),)}, {"tag": "token"}).task("tag").digest(["train"])
            )

        assert digest("a b", "A B") == digest("c d", "A B") != digest("a b", "A C")

    def test_the_words_digest_sees_words_and_their_borders_and_not_labels(self):
        def digest(*words: str, second: tuple[str, ...] = (), tag: str = "A") -> str:
            return words_digest([Sentence("x", words, second, {"tag": tag})])

        assert digest("ab", "c") == digest("ab", "c", tag="B")
        assert len({digest("ab", "c"), digest("a", "bc"), digest("ab", second=("c",)), digest("ab c")}) == 4


class TestShapesOfLabels:
    WORDS = ("a", "b", "c")

    def corpus(self, level, *annotations, second=()):
        sentences = [Sentence(str(n), self.WORDS, second, {"t": a}, f"f:{n}") for n, a in enumerate(annotations)]
        return Corpus("c", {"train": tuple(sentences)}, {"t": level})

    @pytest.mark.parametrize(
        ("level", "annotation", "complaint"),
        [
            ("span", (Span(1, 1, ("X",)),), r"f:0: 't' has an empty span, \[1, 1\) of 3 words"),
            ("span", (Span(2, 4, ("X",)),), r"a span outside the sentence, \[2, 4\) of 3 words"),
            ("span", (Span(2, 1, ("X",)),), "a span outside the sentence"),
            ("span_pair", (SpanPair((0, 1), (3, 4), ("X",)),), r"\[3, 4\) of 3 words"),
        ],
    )
    def test_spans_lie_inside_their_sentence(self, level, annotation, complaint):
        with pytest.raises(CorpusError, match=complaint):
            self.corpus(level, annotation)

    def test_spans_count_words_over_both_segments(self):
        assert self.corpus("span", (Span(3, 5, ("X",)),), second=("d", "e")).task("t").label_counts == {"X": 1}

    def test_labels_that_mix_text_and_numbers_name_both_places(self):
        with pytest.raises(CorpusError, match=r"mix text and numbers: '1' \(f:0\) and 1 \(f:1\)"):
            self.corpus("sentence", "1", 1)
        assert self.corpus("sentence", 0.5, 1).task("t").labels("train") == [0.5, 1]

    def test_texts_need_no_annotation(self):
        task = Corpus("c", {"train": (Sentence("1", self.WORDS),)}, {"t": "text"}).task("t")
        assert task.level == "text"
        assert task.labels("train") == [None]
        assert task.digest(["train"])

    @pytest.mark.parametrize(
        ("level", "annotation"),
        [("span", (Span(0, 2, ("X", "Y")),)), ("span_pair", (SpanPair((0, 1), (1, 3), ()),)), ("sentence", 0.5)],
    )
    def test_a_task_written_for_another_process_keeps_its_shapes(self, level, annotation, tmp_path):
        task = self.corpus(level, annotation).task("t")
        again = read_task(save_task(task, tmp_path))
        assert again.labels("train") == [annotation]
        assert again.label_counts == task.label_counts

    def test_a_training_split_can_be_cut_from_dev(self):
        sentences = tuple(Sentence(str(n), self.WORDS, annotations={"t": "x"}) for n in range(200))
        cut = Corpus("c", {"dev": sentences}, {"t": "sentence"}).hold_out("train", 0.7, source="dev")
        assert list(cut.splits) == ["train", "dev"] and 110 < len(cut["train"]) < 170
        assert len(cut["train"]) + len(cut["dev"]) == 200 and "cut from dev" in cut.notes[0]
