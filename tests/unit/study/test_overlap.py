"""Test sentences that were trained on, and too few of them: counted, and said before any finding."""

import pytest
from small_study import conllu, study

from vestige.corpus.types import Corpus, Sentence
from vestige.report.limits import limits
from vestige.report.warnings import warnings
from vestige.study.run import Study

WORDS = ["A", "cat", "sees", "the", "dog", "."]


def sentences(count: int, first: int = 0) -> list[list[str]]:
    """Different ones."""
    return [[*WORDS[:-1], *("ab"[int(bit)] for bit in f"{number:08b}"), "."] for number in range(first, first + count)]


def run_on(place, folder, cache, **splits):
    for split, found in splits.items():
        (folder / f"{split}.conllu").write_text(conllu(found))
    files = {split: str(folder / f"{split}.conllu") for split in splits}
    raw = study(place, corpora={"words": {"files": files}})
    return Study.from_dict(raw, folder / "run", cache=cache).run()


def test_sentences_are_counted_by_their_words_of_both_segments():
    def pair(id: str, second: str) -> Sentence:
        return Sentence(id, ("a", "b"), (second,))

    corpus = Corpus("c", {"train": (pair("1", "x"),), "test": (pair("2", "x"), pair("3", "y"), pair("4", "x"))}, {})
    assert [corpus.shared_with_train(split) for split in ("train", "test")] == [0, 2]
    assert Corpus("c", {"test": corpus["test"]}, {}).shared_with_train("test") == 0


def test_one_file_of_two_sentences_for_all_splits_shows_nothing(place, tmp_path, cache):
    two = sentences(2)
    run = run_on(place, tmp_path, cache, train=two, dev=two, test=two)
    assert set(run.comparisons["verdict"]) <= {"described", "failed probe"} and run.comparisons["p"].isna().all()
    few, shared, *_ = warnings(run.reading)
    assert few.startswith("words/test has 2 sentences, fewer than 30")
    assert shared.startswith("words/test: 2 of 2 sentences (100.0 %) are sentences of train, too")
    for page in (run.report().read_text(), run.markdown().read_text()):
        assert page.index(few[:40]) < page.index("What this does not say")
        for claim in ("are unchanged", "is unchanged", "of other loses", "of other gains"):
            assert claim not in page


@pytest.mark.parametrize(("shared", "before"), [(40, True), (5, True), (4, False), (0, False)])
def test_a_large_overlap_is_said_before_any_finding_and_a_small_one_among_the_limits(
    shared, before, place, tmp_path, cache
):
    train = sentences(60)
    run = run_on(place, tmp_path, cache, train=train, dev=train[:10], test=train[:shared] + sentences(40 - shared, 100))
    assert run.tables.lock["corpora"]["words"]["splits"]["test"]["in_train"] == shared
    above = [line for line in warnings(run.reading) if "of train" in line]
    below = [line for line in limits(run.reading, []) if "of train" in line]
    assert (len(above), len(below)) == ((1, 0) if before else (0, int(shared > 0)))
