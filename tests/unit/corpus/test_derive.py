"""Derived tasks one by one: the rule of each on small trees, their errors, and real treebanks."""

from collections import Counter
from pathlib import Path

import pytest

from vestige.corpus.derive import DERIVED, derive_task
from vestige.corpus.derive.chunks import chunks_of_brackets, chunks_of_dependencies
from vestige.corpus.derive.clauses import number, tense
from vestige.corpus.derive.dependencies import Dependencies
from vestige.corpus.derive.odd_man_out import comparable
from vestige.corpus.derive.perturb import coordinate_clauses, inner_case, invert
from vestige.corpus.load import load_corpus
from vestige.corpus.readers.brackets import parse_tree
from vestige.corpus.types import Corpus, Sentence, Span, SpanPair
from vestige.errors import CorpusError

SENTENCE_TASKS = [name for name, derived in DERIVED.items() if derived.level == "sentence"]
BINARY = {
    "bigram_shift": {"O", "I"},
    "past_present": {"PAST", "PRES"},
    "subj_number": {"NN", "NNS"},
    "obj_number": {"NN", "NNS"},
    "odd_man_out": {"O", "C"},
    "coordination_inversion": {"O", "I"},
}


def tree(*rows: str, id: str = "x") -> Sentence:
    """A sentence from `word upos xpos head deprel [feats]`."""
    fields = [row.split() for row in rows]
    columns = ["words", "upos", "xpos", "head", "deprel", "feats"]
    found = {name: tuple(row[i] if i < len(row) else "_" for row in fields) for i, name in enumerate(columns)}
    words = found.pop("words")
    return Sentence(id, words, annotations={**found, "head": tuple(map(int, found["head"]))})


def dependencies(*rows: str) -> Dependencies:
    found = Dependencies.of(tree(*rows))
    assert found is not None
    return found


DOG = (
    "The DET DT 2 det",
    "dog NOUN NN 4 nsubj",
    "has AUX VBZ 4 aux",
    "eaten VERB VBN 0 root",
    "two NUM CD 6 nummod",
    "bones NOUN NNS 4 obj",
    "in ADP IN 9 case",
    "the DET DT 9 det",
    "garden NOUN NN 4 obl",
    ". PUNCT . 4 punct",
)
CATS = (
    "He PRON PRP 2 nsubj",
    "slept VERB VBD 0 root",
    ", PUNCT , 6 punct",
    "but CCONJ CC 6 cc",
    "Mary PROPN NNP 6 nsubj",
    "sang VERB VBD 2 conj",
    "loudly ADV RB 6 advmod",
    "! PUNCT . 2 punct",
)


def corpus_of(make, sizes=(("train", 60), ("dev", 30), ("test", 40)), **levels) -> Corpus:
    """Sentences by `make(split, number)`."""
    splits = {split: tuple(make(split, i) for i in range(count)) for split, count in sizes}
    return Corpus("made-up", splits, levels)


def clause_corpus(verbs: int = 40) -> Corpus:
    """`w<i> the noun(s) verb(ed) so here`: subject and tense vary, a verb and a noun of which every split has many."""

    def make(split: str, i: int) -> Sentence:
        past, plural = i % 2, i % 3 == 0
        verb, noun = f"verb{i % verbs}" + "ed" * past, f"noun{i % (verbs + 1)}" + "s" * plural
        return tree(
            f"{split}{i} ADV RB 4 advmod",
            "the DET DT 3 det",
            f"{noun} NOUN {'NNS' if plural else 'NN'} 4 nsubj",
            f"{verb} VERB {'VBD' if past else 'VBZ'} 0 root",
            "here ADV RB 4 advmod",
            id=f"{split}{i}",
        )

    return corpus_of(make, (("train", 600), ("dev", 200), ("test", 200)), head="tree")


@pytest.fixture(scope="module")
def treebank() -> Corpus:
    return load_corpus("treebank")


class TestRules:
    def test_the_finite_verb_is_the_root_or_its_auxiliary(self):
        dog, cats = dependencies(*DOG), dependencies(*CATS)
        assert [tense(dog, word) for word in (2, 3)] == ["PRES", ""]
        assert tense(cats, 1) == "PAST"

    @pytest.mark.parametrize(
        ("feats", "expected"),
        [
            ("Tense=Past|VerbForm=Fin", "PAST"),
            ("Tense=Pres", "PRES"),
            ("Tense=Past|VerbForm=Part", ""),
            ("Tense=Fut", ""),
            ("_", ""),
        ],
    )
    def test_tense_is_told_by_features_where_tags_are_not_penns(self, feats, expected):
        assert tense(dependencies(f"lief VERB VVFIN 0 root {feats}"), 0) == expected

    def test_number_is_that_of_common_nouns(self):
        assert number(dependencies(*DOG), 1) == "NN"
        assert number(dependencies(*DOG), 5) == "NNS"
        assert number(dependencies(*CATS), 4) == ""
        assert number(dependencies("Hunde NOUN _ 0 root Number=Plur"), 0) == "NNS"
        assert number(dependencies("nobody PRON NN 0 root"), 0) == ""

    def test_coordinate_clauses_are_found_and_inverted_with_their_capital_letters(self):
        cats = dependencies(*CATS)
        clauses = coordinate_clauses(cats)
        assert clauses == (2, 4, 7)
        assert " ".join(invert(cats.words, clauses, {"he": "he"})) == "Mary sang loudly , but he slept !"

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({4: "then ADV RB 6 advmod"}, "only one of the clauses has a subject"),
            ({5: "singer NOUN NN 2 conj"}, "a coordinated part is no clause"),
            ({6: "loudly ADV RB 2 advmod"}, "not one conjunction joining two main clauses"),
            ({3: "but ADV RB 6 advmod"}, "not one conjunction joining two main clauses"),
            ({2: '" PUNCT `` 6 punct'}, "quotes or brackets"),
        ],
    )
    def test_other_coordinations_are_left_out_for_a_reason(self, change, reason):
        assert coordinate_clauses(dependencies(*(change.get(i, row) for i, row in enumerate(CATS)))) == reason

    def test_a_word_keeps_the_case_it_mostly_has_inside_of_sentences(self):
        items = tuple(
            Sentence(str(i), tuple(text.split()), annotations={"upos": (upos, *["X"] * 9)})
            for i, (text, upos) in enumerate(
                [("He saw Mary", "PRON"), ("Mary saw he", "PROPN"), ("Yes", "INTJ"), ("Bob", "PROPN")]
            )
        )

        class Source:
            corpus = Corpus("x", {"train": items}, {})

        case = inner_case(Source)
        assert (case["he"], case["mary"], case["yes"], case.get("bob")) == ("he", "Mary", "yes", None)

    @pytest.mark.parametrize(("one", "other", "expected"), [(1, 2, True), (2, 1, True), (1, 3, False), (0, 0, False)])
    def test_frequencies_are_comparable_within_a_factor_of_two(self, one, other, expected):
        assert comparable(one, other) is expected


class TestSentenceTasks:
    def test_lengths_fall_into_sentevals_bins(self):
        def make(split: str, i: int) -> Sentence:
            return Sentence(f"{split}{i}", tuple(f"{split}{i}w{j}" for j in range(i % 32 + 1)))

        made = derive_task(corpus_of(make, (("train", 320), ("test", 320))), "sentence_length")
        found = {len(s.words): s.annotations["sentence_length"] for s in made["train"]}
        assert found == {n: str(sum(n > top for top in (8, 12, 16, 20, 25))) for n in range(5, 29)}
        balanced = derive_task(corpus_of(make, (("train", 320),)), "sentence_length", balance=True)
        assert {*Counter(s.annotations["sentence_length"] for s in balanced["train"]).values()} == {30}

    def test_a_sentence_has_exactly_one_target_word_once(self):
        def make(split: str, i: int) -> Sentence:
            words = [f"Target{'abcdefghij'[i % 10]}", *(f"{split}{i}{j}" for j in range(4)), *["the"] * 9]
            return Sentence(f"{split}{i}", tuple(words + ["targetb"] * (i % 3)))

        made = derive_task(corpus_of(make, (("train", 120), ("test", 90))), "word_content", targets=10, skip=1)
        labels = {s.annotations["word_content"] for s in made["train"]}
        assert labels <= {f"target{letter}" for letter in "abcdefghij"}
        for items in made.splits.values():
            for s in items:
                lowered = [w.lower() for w in s.words]
                assert [w for w in lowered if w in labels] == [s.annotations["word_content"]]
        assert any("several target words" in note for note in made.notes)

    def test_top_constituents_are_read_from_brackets_if_there_are_any(self):
        def make(split: str, i: int) -> Sentence:
            a, b = f"{split}a{i}", f"b{i}"
            text = f"(S (NP (DT the) (NN {a})) (VP (VBZ {b}) (RB so) (RB well)) (. .))"
            if i % 2:
                text = f"(S (PP (IN in) (NP (NN {a}))) (NP (PRP it)) (VP (VBZ {b}) (RB so)) (. .))"
            return Sentence(f"{split}{i}", parse_tree(text).words, annotations={"brackets": text})

        made = derive_task(corpus_of(make), "top_constituents")
        assert {*made.task("top_constituents").label_counts} == {"NP_VP_.", "PP_NP_VP_."}
        depth = derive_task(corpus_of(make), "tree_depth")
        assert {*depth.task("tree_depth").label_counts} == {"3", "4"}
        assert "constituent" in depth.notes[0]

    def test_without_brackets_they_are_the_roots_dependents_and_the_note_says_so(self):
        two = Corpus(
            "two",
            {
                "train": tuple(
                    Sentence(f"{i}", tuple(f"{w}{i}" for w in s.words), annotations=s.annotations)
                    for i in range(60)
                    for s in [tree(*DOG) if i % 2 else tree(*CATS)]
                )
            },
            {},
        )
        made = derive_task(two, "top_constituents")
        assert {*made.task("top_constituents").label_counts} == {"SUBJ_ROOT_OBJ_ADV", "SUBJ_ROOT_CLAUSE"}
        assert "no constituents are annotated" in made.notes[0]

    @pytest.mark.parametrize("task", ["past_present", "subj_number"])
    def test_a_target_word_is_in_one_split_only_unless_shared_words_are_asked_for(self, task):
        place = {"past_present": 3, "subj_number": 2}[task]
        parted, shared = (derive_task(clause_corpus(), task, disjoint_words=d) for d in (True, False))
        for made, disjoint in ((parted, True), (shared, False)):
            words = [{s.words[place] for s in items} for items in made.splits.values()]
            assert words[0].isdisjoint(words[1]) is words[1].isdisjoint(words[2]) is disjoint
            for items in made.splits.values():
                assert len({*Counter(s.annotations[task] for s in items).values()}) == 1
        assert "no target word in two splits" in parted.notes[0]
        assert "shared by splits" in shared.notes[0]

    def test_words_that_make_a_label_by_themselves_are_left_out_of_parted_ones(self):
        corpus = clause_corpus()
        common = {
            split: (
                *items,
                *(
                    tree(
                        "now ADV RB 3 advmod",
                        f"{split}{i} PRON PRP 3 nsubj",
                        "was VERB VBD 0 root",
                        "so ADV RB 3 advmod",
                        "here ADV RB 3 advmod",
                        id=f"{split}was{i}",
                    )
                    for i in range(100)
                ),
            )
            for split, items in corpus.splits.items()
        }
        made = derive_task(Corpus("c", common, {}), "past_present", disjoint_words=True)
        assert not any("was" in s.words for items in made.splits.values() for s in items)
        assert any("100 target word in more than 5%" in note for note in made.notes)

    def test_unless_told_words_are_parted_where_that_leaves_enough(self):
        many, few = (derive_task(clause_corpus(verbs), "past_present") for verbs in (40, 4))
        assert "no target word in two splits" in many.notes[0]
        assert "too few examples to part them" in few.notes[0]

    @pytest.mark.parametrize("disjoint", [False, True])
    def test_one_word_is_replaced_by_another_of_its_part_of_speech(self, treebank, disjoint):
        made = derive_task(treebank, "odd_man_out", disjoint_words=disjoint)
        targets = {}
        for split, items in made.splits.items():
            originals = {s.id: s for s in treebank[split]}
            targets[split] = set()
            for s in items:
                before = originals[s.id]
                changed = [i for i, (a, b) in enumerate(zip(s.words, before.words, strict=True)) if a != b]
                assert len(changed) == (s.annotations["odd_man_out"] == "C")
                for place in changed:
                    assert place > 0
                    assert before.annotations["upos"][place] in ("NOUN", "VERB")
                    targets[split] |= {s.words[place].lower(), before.words[place].lower()}
        assert targets["train"].isdisjoint(targets["test"]) is disjoint
        assert "too small for bigrams" in made.notes[0]

    def test_bigrams_are_attested_where_they_are_asked_for(self, treebank):
        made = derive_task(treebank, "odd_man_out", bigrams=True, minimum=4)
        pairs = {
            p for items in treebank.splits.values() for s in items for p in zip(s.words, s.words[1:], strict=False)
        }
        for items in made.splits.values():
            assert all({*zip(s.words, s.words[1:], strict=False)} <= pairs for s in items)

    def test_the_longer_clause_comes_first_equally_often_under_both_labels(self):
        def make(split: str, i: int) -> Sentence:
            extra = [f"so{i} ADV RB 2 advmod"] if i % 3 == 0 else []
            shift = len(extra)
            rows = (
                f"{split}{i} PRON PRP 2 nsubj",
                "slept VERB VBD 0 root",
                *extra,
                f"and CCONJ CC {5 + shift} cc",
                f"she{i} PRON PRP {5 + shift} nsubj",
                "sang VERB VBD 2 conj",
                *([f"loudly ADV RB {5 + shift} advmod"] if i % 2 else []),
            )
            return tree(*rows, id=f"{split}{i}")

        made = derive_task(corpus_of(make, (("train", 300), ("test", 90))), "coordination_inversion")
        for items in made.splits.values():
            sides: dict[str, Counter[int]] = {"O": Counter(), "I": Counter()}
            for s in items:
                first = s.words.index("and")
                second = len(s.words) - first - 1
                sides[s.annotations["coordination_inversion"]][(first > second) - (first < second)] += 1
            assert sides["O"] == sides["I"]
            assert {*sides["O"]} == {-1, 0, 1}


class TestTokensSpansAndEdges:
    corpus = Corpus("toy", {"train": (tree(*DOG), tree(*CATS, id="y"))}, {"upos": "token"})

    def test_the_other_tasks_and_all_sentences_stay(self):
        made = derive_task(self.corpus, "chunk")
        assert (made.name, made.levels) == ("toy+chunk", {"upos": "token", "chunk": "token"})
        assert [s.words for s in made["train"]] == [s.words for s in self.corpus["train"]]
        assert made.notes[0].startswith("derived: chunk: ")
        assert "2 of 2 sentences used" in made.notes[1]

    def test_a_feature_is_asked_for_by_either_name(self):
        rows = ("Hunde NOUN _ 2 nsubj Case=Nom|Number=Plur", "bellen VERB _ 0 root Number=Plur", ". PUNCT _ 2 punct")
        corpus = Corpus("toy", {"train": (tree(*rows),)}, {})
        assert derive_task(corpus, "number").task("number").labels("train") == [("Plur", "Plur", "_")]
        assert derive_task(corpus, "feats:Case").task("feats:Case").labels("train") == [("Nom", "_", "_")]
        with pytest.raises(CorpusError, match="no morphological feature 'Cse'; it has Number, Case") as raised:
            derive_task(corpus, "feats:Cse")
        assert raised.value.fix == "did you mean 'Case'?"

    def test_arcs_go_from_the_head_to_the_dependent_and_the_root_has_none(self):
        (arcs, _) = derive_task(self.corpus, "dependency_arcs").task("dependency_arcs").labels("train")
        assert arcs[0] == SpanPair((1, 2), (0, 1), ("det",))
        assert len(arcs) == len(DOG) - 1
        assert not any("root" in arc.labels for arc in arcs)

    def test_single_words_are_spans_with_part_of_speech(self):
        (spans, _) = derive_task(self.corpus, "pos_spans").task("pos_spans").labels("train")
        assert spans[:2] == (Span(0, 1, ("DT",)), Span(1, 2, ("NN",)))

    def test_noun_phrases_leave_out_what_introduces_them(self):
        (dog, cats) = derive_task(self.corpus, "noun_phrases").task("noun_phrases").labels("train")
        assert dog == (Span(0, 2, ("nsubj",)), Span(4, 6, ("obj",)), Span(7, 9, ("obl",)))
        assert cats == (Span(0, 1, ("nsubj",)), Span(4, 5, ("nsubj",)))

    def test_constituents_come_from_brackets_where_there_are_no_spans(self):
        text = "(S (NP (PRP It)) (VP (VBZ rains)))"
        sentence = Sentence("x", ("It", "rains"), annotations={"brackets": text})
        made = derive_task(Corpus("toy", {"train": (sentence,)}, {}), "constituents")
        assert made.task("constituents").labels("train") == [
            (Span(0, 2, ("S",)), Span(0, 1, ("NP",)), Span(1, 2, ("VP",)))
        ]

    def test_chunks_of_dependencies(self):
        assert chunks_of_dependencies(dependencies(*DOG)) == (
            *("B-NP", "I-NP", "B-VP", "I-VP"),
            *("B-NP", "I-NP", "B-PP", "B-NP", "I-NP", "O"),
        )

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (
                "(S (NP (NP (DT the) (NN dog) (POS 's)) (NN tail)) (VP (VBZ is) (ADVP (RB widely)) (VP (VBN seen) (PP (IN in) (NP (NN town))))) (. .))",
                "B-NP I-NP B-NP I-NP B-VP I-VP I-VP B-PP B-NP O",
            ),
            (
                "(S (NP (NP (NN work)) (CC and) (NP (DT a) (ADJP (RB very) (JJ long)) (NN rest))) (VP (VBP help)))",
                "B-NP O B-NP I-NP I-NP I-NP B-VP",
            ),
            (
                "(S (VP (VB say) (SBAR (IN that) (S (NP (PRP it)) (VP (VBZ is) (ADJP (JJ good)))))))",
                "B-VP B-SBAR B-NP B-VP B-ADJP",
            ),
        ],
    )
    def test_chunks_of_constituents(self, text, expected):
        assert chunks_of_brackets(parse_tree(text)) == tuple(expected.split())

    @pytest.mark.parametrize("other", ["1", "3"], ids=["cycle", "head outside"])
    def test_sentences_without_a_whole_tree_are_left_out_and_counted(self, other):
        root = "2" if other == "1" else "0"
        broken = tree(f"a NOUN NN {root} dep", f"b NOUN NN {other} dep", id="z")
        corpus = Corpus("toy", {"train": (*self.corpus["train"], broken)}, {})
        made = derive_task(corpus, "dependency_arcs")
        assert len(made["train"]) == 2
        assert "1 without a whole tree" in made.notes[1]


class TestErrors:
    def test_an_annotation_that_is_lacking_is_named_with_corpora_that_have_it(self):
        with pytest.raises(CorpusError, match=r"needs .*dependency heads \(task 'head'\).* lacks .*head") as raised:
            derive_task(load_corpus("opinions"), "coordination_inversion")
        assert "treebank" in raised.value.fix
        assert "gum" in raised.value.fix

    def test_features_that_are_all_empty_count_as_lacking(self, treebank):
        with pytest.raises(CorpusError, match="'treebank' lacks feats"):
            derive_task(treebank, "number")

    def test_an_unknown_task_is_answered_with_the_nearest_name(self, treebank):
        with pytest.raises(CorpusError, match="unknown derived task 'bigramshift'") as raised:
            derive_task(treebank, "bigramshift")
        assert raised.value.fix == "did you mean 'bigram_shift'?"

    def test_an_unknown_option_is_answered_with_the_known_ones(self, treebank):
        with pytest.raises(CorpusError, match="no option 'k'; it has targets, skip, lengths, minimum"):
            derive_task(treebank, "word_content", k=3)

    def test_a_task_the_corpus_has_is_not_overwritten(self):
        corpus = Corpus("toy", {"train": (tree(*DOG),)}, {"chunk": "text"})
        with pytest.raises(CorpusError, match="already has a task 'chunk'"):
            derive_task(corpus, "chunk")

    def test_too_few_examples_are_refused_with_the_reasons(self):
        corpus = corpus_of(lambda split, i: tree(*DOG, id=f"{split}{i}"))
        with pytest.raises(
            CorpusError, match=r"'train': at least 20 examples.*0 of 60 sentences used; left out: 60 text"
        ):
            derive_task(corpus, "bigram_shift")


class TestBuiltIn:
    @pytest.mark.parametrize("task", SENTENCE_TASKS)
    def test_every_sentence_task_can_be_made_and_says_that_it_is_derived(self, treebank, task):
        made = derive_task(treebank, task)
        check_sentence_task(made, task, {"train": 80, "dev": 10, "test": 20})

    @pytest.mark.parametrize("task", ["chunk", "dependency_arcs", "pos_spans", "noun_phrases"])
    def test_every_token_and_span_task_too(self, treebank, task):
        made = derive_task(treebank, task)
        assert made.levels[task] == DERIVED[task].level
        assert {split: len(made[split]) for split in made.splits} == {"train": 1037, "dev": 133, "test": 300}

    @pytest.mark.parametrize("task", ["bigram_shift", "sentence_length", "word_content"])
    def test_text_without_labels_is_enough_for_some(self, treebank, task):
        plain = {split: tuple(Sentence(s.id, s.words) for s in items) for split, items in treebank.splits.items()}
        made, full = derive_task(Corpus("treebank", plain, {"text": "text"}), task), derive_task(treebank, task)
        assert made.notes == full.notes
        for split in made.splits:
            assert [(s.id, s.words, s.annotations) for s in made[split]] == [
                (s.id, s.words, s.annotations) for s in full[split]
            ]

    def test_load_corpus_derives(self, treebank):
        assert load_corpus("treebank", derive="bigram_shift", seed=3) == derive_task(treebank, "bigram_shift", seed=3)


EWT = {
    "sentence_length": (8500, 1350, 1352),
    "word_content": (2494, 388, 371),
    "tree_depth": (2265, 276, 264),
    "top_constituents": (5184, 813, 849),
    "bigram_shift": (8080, 1282, 1286),
    "past_present": (980, 180, 125),
    "subj_number": (870, 100, 100),
    "obj_number": (700, 80, 120),
    "odd_man_out": (5000, 700, 650),
    "coordination_inversion": (510, 70, 70),
}
"""At least so many examples."""


@pytest.fixture(scope="module")
def ewt(data: Path) -> Corpus:
    return load_corpus(data / "ud_ewt")


@pytest.mark.parametrize("task", SENTENCE_TASKS)
def test_ewt_gives_enough_of_every_sentence_task(ewt, task):
    check_sentence_task(derive_task(ewt, task), task, dict(zip(("train", "dev", "test"), EWT[task], strict=True)))


def test_features_of_ewt(ewt):
    counts = derive_task(ewt, "feats:Tense").task("feats:Tense").label_counts
    assert {*counts} == {"_", "Past", "Pres"}


def check_sentence_task(made: Corpus, task: str, least: dict[str, int]) -> None:
    assert made.name.endswith(f"+{task}")
    assert made.levels == {task: "sentence"}
    assert made.notes[0].startswith(f"derived: {task}: ")
    assert "seed 0" in made.notes[0]
    seen: set[str] = set()
    for split, items in made.splits.items():
        assert len(items) >= least[split]
        counts = Counter(s.annotations[task] for s in items)
        texts = {s.text.casefold() for s in items}
        assert len(texts) == len(items)
        assert seen.isdisjoint(texts)
        seen |= texts
        if task in BINARY:
            assert {*counts} == BINARY[task]
            assert len({*counts.values()}) == 1
        assert any(note.startswith(f"{split}: {len(items)} of ") for note in made.notes)
