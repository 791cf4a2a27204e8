"""What derived tasks guarantee whatever the corpus: balance, no leaks, and no role for its order."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vestige.corpus.derive import derive_task
from vestige.corpus.derive.chunks import chunks_of_dependencies
from vestige.corpus.derive.dependencies import Dependencies
from vestige.corpus.derive.perturb import invert, swappable
from vestige.corpus.derive.spans import noun_phrases
from vestige.corpus.types import Corpus, Sentence
from vestige.errors import CorpusError

forms = st.sampled_from(["a", "b", "c", "d", "e", "f", "g", ",", ".", "was", "A", "B"])
texts = st.lists(forms, min_size=1, max_size=9).map(tuple)
splits = st.fixed_dictionaries({split: st.lists(texts, min_size=3, max_size=14) for split in ("train", "dev", "test")})


def text_corpus(given: dict[str, list[tuple[str, ...]]]) -> Corpus:
    made = {
        split: tuple(Sentence(f"{split}{i}", words) for i, words in enumerate(items)) for split, items in given.items()
    }
    return Corpus("made-up", made, {"text": "text"})


def derived(corpus: Corpus, task: str, seed: int = 0, **options) -> Corpus | None:
    """The derived corpus, however small; None if nothing is left of it."""
    try:
        return derive_task(corpus, task, seed=seed, minimum=0, **options)
    except CorpusError as error:
        assert "too little in split" in str(error) or "has no sentences" in str(error)
        return None


def shown(corpus: Corpus) -> dict[tuple[str, str], tuple[tuple[str, ...], object]]:
    """Words and annotations by split and id."""
    return {
        (split, s.id): (s.words, sorted(s.annotations.items())) for split, items in corpus.splits.items() for s in items
    }


def random_heads(draw, size: int) -> tuple[int, ...]:
    """Heads (from 1, 0 = root) of a random tree: words are attached, in random order, to earlier ones."""
    order = draw(st.permutations(range(size)))
    heads = [0] * size
    for place, word in enumerate(order[1:], start=1):
        heads[word] = order[draw(st.integers(0, place - 1))] + 1
    return tuple(heads)


@st.composite
def trees(draw) -> Sentence:
    size = draw(st.integers(1, 9))
    columns = {
        "head": random_heads(draw, size),
        "deprel": tuple(
            draw(st.sampled_from(("nsubj", "obj", "conj", "cc", "punct", "det", "case", "advmod"))) for _ in range(size)
        ),
        "upos": tuple(
            draw(st.sampled_from(("NOUN", "VERB", "ADP", "PUNCT", "DET", "ADV", "PART"))) for _ in range(size)
        ),
    }
    return Sentence("x", tuple(draw(forms) for _ in range(size)), annotations=columns)


class TestSwappedWords:
    @settings(max_examples=40)
    @given(splits, st.integers(0, 3))
    def test_labels_are_balanced_and_no_text_is_there_twice(self, given, seed):
        made = derived(text_corpus(given), "bigram_shift", seed, lengths=None)
        if made is None:
            return
        for split in made.splits:
            assert len({*Counter(s.annotations["bigram_shift"] for s in made[split]).values()}) <= 1
        seen = [s.text.casefold() for items in made.splits.values() for s in items]
        assert len(seen) == len({*seen})

    @settings(max_examples=40)
    @given(splits, st.integers(0, 3))
    def test_the_changed_text_is_the_original_with_two_neighbours_swapped_and_nobodys_original(self, given, seed):
        corpus = text_corpus(given)
        made = derived(corpus, "bigram_shift", seed, lengths=None)
        if made is None:
            return
        originals = {(split, s.id): s.words for split, items in corpus.splits.items() for s in items}
        everything = {" ".join(words).casefold() for words in originals.values()}
        for key, (words, labels) in shown(made).items():
            before = originals[key]
            if labels == [("bigram_shift", "O")]:
                assert words == before
            else:
                places = [i for i, (a, b) in enumerate(zip(words, before, strict=True)) if a != b]
                assert sorted(words) == sorted(before)
                assert len(places) == 2
                assert places[1] == places[0] + 1
                assert places[0] > 0
                assert " ".join(words).casefold() not in everything

    @given(texts)
    def test_only_unequal_words_inside_the_sentence_may_be_swapped(self, words):
        for place in swappable(words):
            pair = words[place : place + 2]
            assert place > 0
            assert pair[0].lower() != pair[1].lower()
            assert not {",", "."} & {*pair}


class TestOrder:
    @settings(max_examples=25)
    @given(splits, st.randoms(), st.sampled_from(["bigram_shift", "sentence_length", "word_content"]))
    def test_the_order_of_the_corpus_plays_no_role(self, given, shuffler, task):
        corpus = text_corpus(given)
        shuffled = {name: shuffler.sample(corpus[name], len(corpus[name])) for name in reversed(corpus.splits)}
        other = Corpus("made-up", {name: tuple(items) for name, items in shuffled.items()}, corpus.levels)
        options = {"lengths": None, **({"skip": 0} if task == "word_content" else {})}
        one, two = (derived(c, task, 1, **options) for c in (corpus, other))
        assert (one is None) == (two is None)
        if one and two:
            assert shown(one) == shown(two)

    def test_another_seed_draws_otherwise_and_the_same_one_the_same(self):
        corpus = text_corpus({"train": [(f"n{i}", "one", "two", "three", f"w{i}", "five") for i in range(60)]})
        first, again, other = (shown(derive_task(corpus, "bigram_shift", seed=seed)) for seed in (0, 0, 1))
        assert first == again != other

    def test_labels_have_nothing_to_do_with_how_hold_out_cuts_with_the_same_seed(self):
        corpus = text_corpus({"train": [(f"n{i}", "one", "two", "three", f"w{i}", "five") for i in range(400)]})
        whole = {s.id: s.annotations["bigram_shift"] for s in derive_task(corpus, "bigram_shift", seed=5)["train"]}
        held = [whole[s.id] for s in corpus.hold_out("dev", 0.5, seed=5)["dev"]]
        assert 0.4 < held.count("I") / len(held) < 0.6


class TestDuplicates:
    @settings(max_examples=40)
    @given(splits)
    def test_a_sentence_of_two_splits_stays_in_test(self, given):
        given["train"] = [*given["train"], ("a", "b", "c", "d", "e")]
        given["test"] = [*given["test"], ("A", "B", "c", "d", "e")]
        made = derived(text_corpus(given), "sentence_length")
        if made is None:
            return
        found = [split for split, items in made.splits.items() for s in items if s.text.lower() == "a b c d e"]
        assert found == ["test"]

    def test_of_equal_sentences_of_a_split_the_order_does_not_choose(self):
        texts = [(f"n{i}", "one", "Two", "three", "five") for i in range(30)]
        twice = text_corpus({"train": [*texts, *[tuple(map(str.upper, words)) for words in texts]]})
        backward = Corpus("made-up", {"train": twice["train"][::-1]}, twice.levels)
        one, two = (shown(derive_task(corpus, "bigram_shift")) for corpus in (twice, backward))
        assert one == two
        assert len(one) == 30

    def test_a_change_that_makes_another_sentence_of_the_corpus_is_no_example(self):
        alone = [(f"n{i}", "one", "two") for i in range(30)]
        twins = [(f"m{i}", *pair) for i in range(9) for pair in (("one", "two"), ("two", "one"))]
        made = derive_task(text_corpus({"train": alone, "test": twins}), "bigram_shift", lengths=None, minimum=0)
        assert len(made["train"]) == 30
        assert len(made["test"]) == 0
        assert "18 changed text is another sentence" in made.notes[-1]


class TestDepth:
    def test_depth_and_length_are_independent_and_depths_balanced(self):
        made = derive_task(chains(), "tree_depth", lengths=None)
        for split in made.splits:
            cells = Counter((len(s.words), s.annotations["tree_depth"]) for s in made[split])
            by_length: dict[int, set[int]] = {}
            for (length, _), count in cells.items():
                by_length.setdefault(length, set()).add(count)
            assert all(len(counts) == 1 for counts in by_length.values())
            depths = {depth for _, depth in cells}
            assert len(depths) > 1
            assert all({d for n, d in cells if n == length} == depths for length in by_length)

    def test_without_decorrelation_deeper_trees_are_longer_and_the_note_says_so(self):
        made = derive_task(chains(), "tree_depth", decorrelate=False, lengths=None, least=1)
        lengths = {
            depth: [len(s.words) for s in made["train"] if s.annotations["tree_depth"] == depth] for depth in ("1", "6")
        }
        assert min(lengths["1"]) < min(lengths["6"])
        assert "not decorrelated" in made.notes[0]

    @given(trees())
    def test_the_depth_of_a_tree_is_that_of_its_deepest_word(self, sentence):
        tree = Dependencies.of(sentence)
        assert tree is not None

        def depth(word: int) -> int:
            return 0 if tree.heads[word] < 0 else 1 + depth(tree.heads[word])

        counted = [
            depth(word)
            for word in range(len(tree.words))
            if not any(tree.relation(above) == "punct" for above in path(tree, word))
        ]
        assert tree.depth() == max(counted)

    @given(trees())
    def test_subtrees_of_the_roots_children_part_the_other_words(self, sentence):
        tree = Dependencies.of(sentence)
        assert tree is not None
        below = [word for child in tree.children[tree.root] for word in tree.subtree(child)]
        assert sorted([*below, tree.root]) == list(range(len(tree.words)))


class TestTreesOfAnyShape:
    @given(trees())
    def test_chunk_tags_are_well_formed(self, sentence):
        tree = Dependencies.of(sentence)
        assert tree is not None
        tags = chunks_of_dependencies(tree)
        assert len(tags) == len(sentence.words)
        for before, tag in zip(("O", *tags), tags, strict=False):
            assert not tag.startswith("I-") or before[2:] == tag[2:]

    @given(trees())
    def test_noun_phrases_are_spans_of_the_subtree_around_their_noun(self, sentence):
        annotate, _ = noun_phrases(Corpus("x", {"train": (sentence,)}, {}), frozenset())
        tree = Dependencies.of(sentence)
        assert tree is not None
        subtrees = [{*tree.subtree(word)} for word in range(len(tree.words))]
        for span in annotate(sentence):
            assert any({*range(span.start, span.end)} <= below for below in subtrees)


class TestInversion:
    lower = st.sampled_from(["he", "she", "it", "went", "sat", "and", "the", "cat", "then"])

    @given(st.lists(lower, min_size=1, max_size=5), st.lists(lower, min_size=1, max_size=5), st.booleans())
    def test_inverting_twice_gives_the_sentence_back(self, first, second, comma):
        case = {word: word for word in (*first, *second)}
        join = [",", "and"] if comma else ["and"]
        words = (first[0].capitalize(), *first[1:], *join, *second, ".")
        once = invert(words, (len(first), len(first) + len(join), len(words) - 1), case)
        assert once[0] == second[0].capitalize()
        assert Counter(map(str.lower, once)) == Counter(map(str.lower, words))
        assert invert(once, (len(second), len(second) + len(join), len(words) - 1), case) == words


def path(tree: Dependencies, word: int) -> list[int]:
    """The word and all above it but the root."""
    found = []
    while tree.heads[word] >= 0:
        found.append(word)
        word = tree.heads[word]
    return found


def chains() -> Corpus:
    """Trees of every length from 3 to 12 and depth below it: a chain, the rest attached to the root."""
    made = {}
    for split, copies in (("train", 3), ("test", 2)):
        items = []
        for size in range(3, 13):
            for depth in range(1, size):
                for copy in range(copies):
                    words = tuple(f"{split}{size}{depth}{copy}w{i}" for i in range(size))
                    heads = tuple(i if i <= depth else 1 for i in range(size))
                    annotations = {"head": heads, "deprel": ("dep",) * size}
                    items.append(Sentence(f"{size}-{depth}-{copy}", words, annotations=annotations))
        made[split] = tuple(items)
    return Corpus("chains", made, {"head": "tree"})


@pytest.mark.parametrize("heads", [(2, 1), (0, 0), (-1, 1), (0, 3, 2)])
def test_heads_that_make_no_single_tree_are_no_tree(heads):
    assert Dependencies.of(Sentence("x", ("w",) * len(heads), annotations={"head": heads})) is None
