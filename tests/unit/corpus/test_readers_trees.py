"""Readers of trees, GUM and proto-roles on small files: what they take, leave out, and complain of."""

import gzip
import json
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige.corpus.load import load_corpus
from vestige.corpus.readers.brackets import parse_tree, read_brackets
from vestige.corpus.readers.conllu import parse_conllu
from vestige.corpus.readers.gum import read_gum
from vestige.corpus.readers.mentions import Mention, mention_pairs, read_mentions
from vestige.corpus.readers.protoroles import read_protoroles
from vestige.corpus.types import Sentence, Span, SpanPair
from vestige.errors import CorpusError

RAINS = "(S (NP (PRP It)) (VP (VBZ rains)) (. .))"


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    def write(name: str, content: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
        return path

    return write


def labelled(sentence: Sentence) -> list[tuple[str, str]]:
    """Labels of the constituents, each with its words."""
    spans = sentence.annotations["constituent"]
    return [(*span.labels, " ".join(sentence.words[span.start : span.end])) for span in spans]


class TestTree:
    @pytest.mark.parametrize(
        "text",
        [
            RAINS,
            f"( {RAINS})",
            f"({RAINS})",
            f"(ROOT {RAINS})",
            f"(TOP\n {RAINS} )",
            f"( (ROOT {RAINS}))",
            RAINS.replace(" (", "\r\n  ("),
            RAINS.replace("NP ", "NP-SBJ-1 ").replace("VP ", "VP=2 "),
        ],
    )
    def test_wrappers_lines_and_function_tags_make_no_difference(self, text):
        tree = parse_tree(text)
        assert str(tree) == RAINS
        assert tree == parse_tree(RAINS)
        assert tree.words == ("It", "rains", ".")
        assert (tree.start, tree.end) == (0, 3)

    def test_depth_counts_steps_from_the_top_to_the_farthest_word(self):
        assert parse_tree("(UH Yes)").depth == 1
        assert parse_tree(RAINS).depth == 3
        assert parse_tree("(S (NP (PRP It)) (VP (VBZ seems) (S (VP (TO to) (VP (VB rain))))) (. .))").depth == 6

    def test_top_constituents_are_the_labels_below_the_topmost_node(self):
        assert parse_tree(f"(ROOT {RAINS})").top_constituents == ("NP", "VP", ".")
        assert parse_tree("( (NP (NN Rain)) (. .))").top_constituents == ("NP", ".")
        assert parse_tree("(UH Yes)").top_constituents == ()

    def test_empty_elements_and_phrases_of_nothing_else_are_dropped(self):
        tree = parse_tree(
            "(S (NP-SBJ (-NONE- *)) (VP (VB Go) (SBAR (-NONE- 0) (S (NP (-NONE- *T*-1))))) (ADVP (RB now)))"
        )
        assert str(tree) == "(S (VP (VB Go)) (ADVP (RB now)))"
        assert [(node.label, node.start, node.end) for node in tree.phrases] == [
            ("S", 0, 2),
            ("VP", 0, 1),
            ("ADVP", 1, 2),
        ]

    def test_words_lose_their_escapes_and_get_them_back_in_brackets(self):
        tree = parse_tree("(NP (-LRB- -LRB-) (CD 1\\/2) (NN cup-LRB-s-RRB-) (-RRB- -RRB-) (NN -LSB-x-RCB-) (SYM \\*))")
        assert tree.words == ("(", "1/2", "cup(s)", ")", "[x}", "*")
        assert [node.label for node in tree.preterminals][:2] == ["-LRB-", "CD"]
        assert parse_tree(str(tree)) == tree

    def test_function_tags_stay_if_asked_for_and_tags_always_do(self):
        text = "(S-NOM (NP-SBJ-1 (PRP$-X its)) (ADVP|PRT (RB up)))"
        assert str(parse_tree(text)) == "(S (NP (PRP$-X its)) (ADVP (RB up)))"
        assert str(parse_tree(text, function_tags=True)) == text

    def test_a_tree_as_deep_as_no_recursion_goes_is_read_and_written(self):
        deep = "(NP " * 5000 + "(NN x)" + ")" * 5000
        assert parse_tree(deep).depth == 5001
        assert str(parse_tree(deep)) == deep

    @given(
        st.recursive(
            st.builds(
                lambda tag, word: f"({tag} {word})", st.sampled_from(["NN", ",", "-LRB-"]), st.sampled_from("ab:é")
            ),
            lambda inner: st.builds(
                lambda label, below: f"({label} {' '.join(below)})",
                st.sampled_from(["NP", "S", "VP"]),
                st.lists(inner, min_size=1, max_size=3),
            ),
            max_leaves=12,
        )
    )
    def test_what_is_normal_already_comes_back_as_it_was(self, text):
        tree = parse_tree(text)
        assert str(tree) == text
        assert [node.start for node in tree.preterminals] == list(range(len(tree.words)))
        for node in tree.phrases:
            assert (node.start, node.end) == (node.children[0].start, node.children[-1].end)

    @pytest.mark.parametrize("text", ["", RAINS * 2])
    def test_one_tree_is_one_tree(self, text):
        with pytest.raises(CorpusError, match="expected one bracketed tree, found"):
            parse_tree(text)


class TestBrackets:
    def test_a_file_gives_tags_phrases_and_the_tree(self, write):
        path = write("a.mrg", f"\n( {RAINS.replace(' (VP', chr(10) + '   (VP')} )\r\n\r\n((S\n(VP (VB Go))) )\n")
        first, second = read_brackets(path)
        assert first.words == ("It", "rains", ".")
        assert first.annotations == {
            "pos": ("PRP", "VBZ", "."),
            "constituent": (Span(0, 3, ("S",)), Span(0, 1, ("NP",)), Span(1, 2, ("VP",))),
            "brackets": RAINS,
        }
        assert (first.source, second.source) == (f"{path}:2", f"{path}:5")

    def test_every_node_of_a_unary_chain_is_a_span(self, write):
        (sentence,) = read_brackets(write("a.ptb", "(ROOT (S (VP (VP (VB Go)))))"))
        assert labelled(sentence) == [("S", "Go"), ("VP", "Go"), ("VP", "Go")]

    def test_a_lone_tag_has_no_phrase_and_a_wrapper_of_two_is_none(self, write):
        lone, two = read_brackets(write("a.ptb", "(ROOT (UH Yes))\n( (NP (NN Rain)) (. .))"))
        assert lone.annotations["constituent"] == ()
        assert labelled(two) == [("NP", "Rain")]
        assert parse_tree(two.annotations["brackets"]).words == two.words

    def test_a_folder_and_a_list_are_read_in_order(self, write, tmp_path):
        for name in ("wsj/02/b.mrg", "wsj/02/a.mrg", "wsj/03/c.mrg"):
            write(name, f"(NN {Path(name).stem})")
        write("wsj/02/notes.doc", "not a tree")
        assert [s.words for s in read_brackets(tmp_path / "wsj")] == [("a",), ("b",), ("c",)]
        corpus = load_corpus(
            {"train": [tmp_path / "wsj" / "03", tmp_path / "wsj/02/a.mrg"]}, format="brackets", function_tags=True
        )
        assert [s.words for s in corpus["train"]] == [("c",), ("a",)]
        assert corpus.levels == {"pos": "token", "constituent": "span"}
        with pytest.raises(CorpusError, match=r"wsj: no file that ends in \.doc2"):
            read_brackets(tmp_path / "wsj", suffixes=[".doc2"])

    @pytest.mark.parametrize(
        ("text", "line", "complaint"),
        [
            (f"{RAINS}\n\n(S\n (NP (NN x))\n", 3, "the tree that starts here lacks 1 closing"),
            (f"{RAINS}\n(NN x))\n", 2, "a closing bracket too many"),
            (f"{RAINS}\nrains\n{RAINS}", 2, "'rains' outside of brackets"),
            (f"{RAINS}\n\n( )", 3, r"an empty tree: \(\)"),
            (f"{RAINS}\n(S (-NONE- *))", 2, "an empty tree, without a word"),
            (f"{RAINS}\n(S (NP (NN x))\n  (VP))", 3, r"the node \(VP\) has neither a word nor a child"),
            ("(S\n(NN two words))", 2, "the word 'words' stands beside another"),
            ("(S (NN x)\n word)", 2, "the word 'word' stands beside another"),
            ("(S\n(NP word (NN x)))", 2, r"the node \(NP word \.\.\.\) has a word and a child"),
        ],
    )
    def test_broken_trees_are_reported_with_file_and_line(self, write, text, line, complaint):
        with pytest.raises(CorpusError, match=rf"bad\.ptb:{line}: .*{complaint}") as raised:
            read_brackets(write("bad.ptb", text))
        assert raised.value.fix


def rows(*lines: str, id_: str = "") -> str:
    """CoNLL-U lines from `form xpos head`."""
    made = [f"# sent_id = {id_}"] if id_ else []
    for number, line in enumerate(lines, start=1):
        form, xpos, head = line.split()
        made.append("\t".join((str(number), form, form, "X", xpos, "_", head, "dep", "_", "_")))
    return "\n".join(made) + "\n\n"


def marks(*lines: str) -> str:
    """A document's mentions from `word marks`."""
    body = [f"{number}\t{word}\t{mark}" for number, line in enumerate(lines) for word, mark in [line.split()]]
    return "\n".join(["# begin document X", *body, "# end document", ""])


SPLITS_MD = "# Splits\n\n## dev\n\n  * GUM_d\n\n## test\n  * GUM_t\n\n## test2\n  * GENTLE_x\n\n## train\n  * GUM_a\n  * GUM_r\n"
SHE_SAW = rows("She PRP 2", "saw VBD 0", "her PRP$ 4", "dog NN 2", id_="a-1")
IT_RAN = rows("It PRP 2", "ran VBD 0", "( -LRB- 2", id_="a-2")
A_TREES = (
    "(ROOT\n  (S (NP-SBJ (PRP She))\n    (VP (VBD saw)\n      (NP (PRP$ her) (NN dog)))))\n\n"
    "(ROOT (S (NP-SBJ (PRP It)) (VP (VBD ran)) (-LRB- -LRB-)))\n"
)
A_MENTIONS = marks("She (person-1)", "saw _", "her (animal-2-Dog(person-1)", "dog animal-2-Dog)") + marks(
    "It (animal-2-Dog)", "ran (event-3)", "( _"
)


def documents(**changes: str | None) -> dict[str, str]:
    """The files of a tiny GUM; keywords with `__` for `/` and `_dot_` for `.` replace or remove one."""
    files = {
        "splits.md": SPLITS_MD,
        "dep/GUM_a.conllu": SHE_SAW + IT_RAN,
        "const/GUM_a.ptb": A_TREES,
        "coref/gum/conll/GUM_a.conll": A_MENTIONS,
        "dep/GUM_r.conllu": rows("___ PRP 2", "_ VBD 0"),
    }
    for name in ("GUM_d", "GUM_t"):
        files[f"dep/{name}.conllu"] = rows("Yes UH 0", id_=f"{name}-1")
        files[f"const/{name}.ptb"] = "(ROOT (INTJ (UH Yes)))"
        files[f"coref/gum/conll/{name}.conll"] = marks("Yes _")
    files.update({key: text for key, text in changes.items() if text is not None})
    return {key: text for key, text in files.items() if changes.get(key, "") is not None}


@pytest.fixture
def gum(tmp_path: Path, write) -> Callable[..., Path]:
    def gum(changes: dict[str, str | None] | None = None, archive: bool = True) -> Path:
        for name, text in documents(**(changes or {})).items():
            write(f"gum/{name}", text)
        if not archive:
            return tmp_path
        with tarfile.open(tmp_path / "gum.tar.gz", "w:gz") as file:
            file.add(tmp_path / "gum", "gum")
        return tmp_path / "gum.tar.gz"

    return gum


class TestGum:
    @pytest.mark.parametrize("archive", [True, False])
    def test_the_layers_meet_over_the_same_words(self, gum, archive):
        corpus = load_corpus(gum(archive=archive), format="gum")
        assert {split: len(items) for split, items in corpus.splits.items()} == {"train": 2, "dev": 1, "test": 1}
        first, second = corpus["train"]
        assert (first.id, first.words) == ("a-1", ("She", "saw", "her", "dog"))
        assert first.annotations["xpos"] == ("PRP", "VBD", "PRP$", "NN")
        assert first.annotations["head"] == (2, 0, 4, 2)
        assert labelled(first) == [("S", "She saw her dog"), ("NP", "She"), ("VP", "saw her dog"), ("NP", "her dog")]
        assert parse_tree(first.annotations["brackets"]).words == first.words
        assert first.annotations["entity"] == (
            Span(0, 1, ("person",)),
            Span(2, 4, ("animal",)),
            Span(2, 3, ("person",)),
        )
        assert second.words == ("It", "ran", "(")
        assert second.annotations["entity"] == (Span(0, 1, ("animal",)), Span(1, 2, ("event",)))
        assert first.source.endswith("dep/GUM_a.conllu:1")

    def test_pairs_of_mentions_corefer_or_not(self, gum):
        first, second = read_gum(gum())["train"]
        assert first.annotations["coref"] == (
            SpanPair((0, 1), (2, 4), ("0",)),
            SpanPair((0, 1), (2, 3), ("1",)),
            SpanPair((2, 4), (2, 3), ("0",)),
        )
        assert second.annotations["coref"] == ()

    def test_entities_mentioned_once_make_pairs_if_asked_for(self, gum):
        first, second = read_gum(gum(), singletons=True)["train"]
        assert len(first.annotations["coref"]) == 3
        assert second.annotations["coref"] == (SpanPair((0, 1), (1, 2), ("0",)),)

    def test_masked_documents_are_left_out_and_counted(self, gum):
        splits = read_gum(gum())
        assert splits["train"].notes == ("train: 1 documents with masked words left out",)
        assert splits["dev"].notes == ()

    def test_a_mention_beyond_the_end_of_its_sentence_is_left_out_and_counted(self, gum):
        crossing = A_MENTIONS.replace("saw\t_", "saw\t(event-9").replace("ran\t(event-3)", "ran\tevent-9)")
        train = read_gum(gum({"coref/gum/conll/GUM_a.conll": crossing}))["train"]
        assert [len(s.annotations["entity"]) for s in train] == [3, 1]
        assert "train: 1 mentions that go beyond the end of a sentence left out" in train.notes

    def test_function_tags_stay_if_asked_for(self, gum):
        first, _ = read_gum(gum(), function_tags=True)["train"]
        assert ("NP-SBJ", "She") in labelled(first)

    @pytest.mark.parametrize(
        "name", ["dep/GUM_a.conllu", "const/GUM_a.ptb", "coref/gum/conll/GUM_d.conll", "splits.md"]
    )
    def test_a_document_without_one_of_its_layers_is_reported(self, gum, name):
        with pytest.raises(CorpusError, match=rf"gum\.tar\.gz: no file {name}"):
            read_gum(gum({name: None}))

    @pytest.mark.parametrize(
        ("name", "old", "new", "complaint"),
        [
            ("const/GUM_a.ptb", "It", "He", r"GUM_a\.ptb:6: the tree of 'He ran \(' where .*GUM_a\.conllu:7 has 'It"),
            (
                "const/GUM_a.ptb",
                "(ROOT (S (NP-SBJ (PRP It)) (VP (VBD ran)) (-LRB- -LRB-)))",
                "",
                "1 trees where .* 2 sen",
            ),
            ("const/GUM_a.ptb", "(VBD ran))", "(VBD ran)", r"GUM_a\.ptb:6: unbalanced brackets"),
            ("dep/GUM_a.conllu", "1\tIt\t", "It\t", r"GUM_a\.conllu:8: expected 10 tab-separated columns, found 9"),
            ("coref/gum/conll/GUM_a.conll", "It", "He", r"GUM_a\.conll:8: 'He' where the dependencies have 'It'"),
            ("coref/gum/conll/GUM_a.conll", "\n2\t(\t_", "", r"GUM_a\.conll: 6 words where the dependencies have 7"),
            ("coref/gum/conll/GUM_a.conll", "(\t_", "(\t_\n3\t!\t_", r"GUM_a\.conll:11: '!' where .* no further word"),
            (
                "coref/gum/conll/GUM_a.conll",
                "saw\t_",
                "saw",
                r"GUM_a\.conll:3: expected 3 tab-separated columns, found 2",
            ),
            (
                "coref/gum/conll/GUM_a.conll",
                "saw\t_",
                "saw\tevent-9)",
                r"GUM_a\.conll:3: event-9 ends but did not begin",
            ),
            ("coref/gum/conll/GUM_a.conll", "saw\t_", "saw\t(event-9", r"GUM_a\.conll:3: event-9 begins but does not"),
            (
                "coref/gum/conll/GUM_a.conll",
                "saw\t_",
                "saw\t(event",
                r"GUM_a\.conll:3: cannot read the mentions '\(event'",
            ),
            ("splits.md", "* GUM_d", "GUM_d", r"splits\.md: no documents for dev"),
        ],
    )
    def test_layers_that_do_not_fit_are_reported_with_file_and_line(self, gum, name, old, new, complaint):
        text = documents()[name]
        assert text.count(old) == 1
        with pytest.raises(CorpusError, match=complaint) as raised:
            read_gum(gum({name: text.replace(old, new)}))
        assert raised.value.fix

    @pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.9])
    def test_a_truncated_archive_is_reported(self, gum, share):
        path = gum()
        path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
        with pytest.raises(CorpusError, match=r"gum\.tar\.gz: not a whole tar archive"):
            read_gum(path)

    def test_what_is_no_archive_and_what_is_not_there_are_told_apart(self, write, tmp_path):
        with pytest.raises(CorpusError, match=r"a\.txt: not a whole tar archive"):
            read_gum(write("a.txt", "hello"))
        with pytest.raises(CorpusError, match=r"absent: no such file or folder"):
            read_gum(tmp_path / "absent")

    def test_bytes_that_are_not_utf8_are_reported_with_file_and_line(self, gum, tmp_path):
        folder = gum(archive=False)
        (folder / "gum/const/GUM_a.ptb").write_bytes(b"(ROOT\n(NN caf\xe9))")
        with pytest.raises(CorpusError, match=r"GUM_a\.ptb:2: not UTF-8"):
            read_gum(folder)

    def test_one_entity_may_nest_in_itself(self):
        lines = marks("a (person-1-X(person-1-X)", "b person-1-X)").split("\n")
        assert [mention.span for mention in read_mentions(lines, Path("x"), ["a", "b"])] == [(0, 2), (0, 1)]
        lines = marks("a (person-1", "b (person-1", "c person-1)", "d person-1)").split("\n")
        assert [mention.span for mention in read_mentions(lines, Path("x"), [*"abcd"])] == [(0, 4), (1, 3)]

    def test_entities_of_one_type_are_told_apart_by_number(self):
        one, other, again = Mention(0, 1, "person", "1"), Mention(1, 2, "person", "11"), Mention(2, 4, "person", "1")
        assert [pair.labels for pair in mention_pairs([one, other, again])] == [("0",), ("1",), ("0",)]


def answers(**values: float) -> dict[str, dict[str, dict[str, float]]]:
    return {"protoroles": {role: {"value": value, "confidence": 0.5} for role, value in values.items()}}


DOG = rows("The DT 2", "dog NN 5", "she PRP 4", "saw VBD 2", "ran VBD 0", "away RB 5", id_="doc-2")


def edge(graph: str, predicate: int, argument: int) -> str:
    return f"{graph}-semantics-pred-{predicate}%%{graph}-semantics-arg-{argument}"


@pytest.fixture
def protoroles(tmp_path: Path, write) -> Callable[..., Path]:
    def protoroles(data: object = None, ids: dict[str, str] | None = None, train: str = SHE_SAW + DOG) -> Path:
        write("data/ud_ewt/en_ewt-ud-train.conllu", train)
        write("data/ud_ewt/en_ewt-ud-dev.conllu", rows("Go VB 0", "home RB 1", id_="doc-9"))
        folder = write("data/roles/README", "").parent
        data = data or {
            "ewt-train-8": {
                edge("ewt-train-8", 5, 2): answers(volition=1.5, instigation=0.5, was_used=-0.0, awareness=-1.0),
                edge("ewt-train-8", 4, 2): answers(time=-0.5),
            },
            "ewt-dev-1": {edge("ewt-dev-1", 1, 2): answers(location=2.0)},
        }
        with zipfile.ZipFile(folder / "protoroles.normalized.zip", "w") as archive:
            archive.writestr("protoroles.json", json.dumps({"metadata": {}, "data": data}))
        ids = ids or {"ewt-train-8": "doc-2", "ewt-dev-1": "doc-9"}
        map_ = {key: {"document_id": "doc", "sentence_id": value} for key, value in ids.items()}
        (folder / "ud_ids.json.gz").write_bytes(gzip.compress(json.dumps(map_).encode()))
        return folder

    return protoroles


class TestProtoroles:
    def test_edges_become_pairs_of_words_with_the_properties_above_zero(self, protoroles):
        corpus = load_corpus(protoroles(), format="protoroles")
        assert corpus.levels == {"protoroles": "span_pair"}
        (sentence,), (dev,) = corpus["train"], corpus["dev"]
        assert (sentence.id, sentence.words) == ("doc-2", ("The", "dog", "she", "saw", "ran", "away"))
        assert sentence.annotations["protoroles"] == (
            SpanPair((3, 4), (1, 2), ()),
            SpanPair((4, 5), (1, 2), ("instigation", "volition")),
        )
        assert sentence.annotations["protorole_values"][0] == {"time": (-0.5, 0.5)}
        assert sentence.annotations["protorole_values"][1]["awareness"] == (-1.0, 0.5)
        assert dev.annotations["protoroles"] == (SpanPair((0, 1), (1, 2), ("location",)),)
        assert sentence.source.endswith("en_ewt-ud-train.conllu:7")

    def test_an_argument_may_be_the_words_that_depend_on_it_but_not_through_the_predicate(self, protoroles):
        (sentence,) = read_protoroles(protoroles(), argument="subtree")["train"]
        saw, ran = sentence.annotations["protoroles"]
        assert (saw.second, ran.second) == ((0, 2), (0, 4))
        with pytest.raises(CorpusError, match="unknown argument='phrase'; known: head, subtree"):
            read_protoroles(protoroles(), argument="phrase")

    def test_the_zip_and_the_folder_of_ewt_may_be_named(self, protoroles, tmp_path, monkeypatch):
        folder = protoroles()
        monkeypatch.chdir(folder)
        by_default = read_protoroles("protoroles.normalized.zip")
        (tmp_path / "data" / "ud_ewt").rename(tmp_path / "elsewhere")
        assert read_protoroles(folder, ewt=tmp_path / "elsewhere")["dev"][0].words == by_default["dev"][0].words
        with pytest.raises(CorpusError, match=r"ud_ewt: expected one \.conllu file whose name says train, found 0"):
            read_protoroles(folder)

    def test_sentences_that_ewt_lacks_are_reported(self, protoroles):
        folder = protoroles(train=SHE_SAW)
        with pytest.raises(
            CorpusError, match=r"train\.conllu: lacks 1 of the 1 sentences with proto-roles, doc-2 first"
        ):
            read_protoroles(folder)

    def test_a_graph_that_the_map_lacks_is_reported(self, protoroles):
        with pytest.raises(CorpusError, match=r"ewt-train-8: .*ud_ids\.json\.gz does not say which sentence"):
            read_protoroles(protoroles(ids={"ewt-dev-1": "doc-9"}))

    @pytest.mark.parametrize(("predicate", "argument"), [(7, 1), (1, 7), (0, 1), (1, 0)])
    def test_a_position_outside_the_sentence_is_reported(self, protoroles, predicate, argument):
        data = {"ewt-train-8": {edge("ewt-train-8", predicate, argument): answers(time=1.0)}}
        with pytest.raises(
            CorpusError, match=rf"train\.conllu:7: an edge from word {predicate} to word {argument}, but"
        ):
            read_protoroles(protoroles(data))

    @pytest.mark.parametrize(
        ("data", "complaint"),
        [
            ({"ewt-eval-8": {}}, "expected an id such as ewt-train-12"),
            ({"ewt-train-8": {"x": answers(time=1.0)}}, "expected an edge such as .*, found x"),
            ({"ewt-train-8": {edge("ewt-train-9", 1, 2): answers(time=1.0)}}, "expected an edge such as"),
            ({"ewt-train-8": {edge("ewt-train-8", 1, 2): {}}}, "no value and confidence for every property"),
            ({"ewt-train-8": {edge("ewt-train-8", 1, 2): {"protoroles": {"time": {"value": 1}}}}}, "no value and conf"),
            ({"ewt-train-8": ["x"]}, "expected ewt-train-8 to be an object"),
            (["x"], "expected 'data' to be an object"),
        ],
    )
    def test_other_json_is_reported(self, protoroles, data, complaint):
        with pytest.raises(CorpusError, match=complaint):
            read_protoroles(protoroles(data))

    @pytest.mark.parametrize(
        ("name", "complaint"),
        [
            ("protoroles.normalized.zip", r"protoroles\.normalized\.zip: not a whole archive of proto-roles"),
            ("ud_ids.json.gz", r"ud_ids\.json\.gz(: not a whole map of ids|:1: not JSON)"),
        ],
    )
    def test_truncated_and_missing_files_are_reported(self, protoroles, name, complaint):
        folder = protoroles()
        content = (folder / name).read_bytes()
        for part in (content[: len(content) // 2], b"hello"):
            (folder / name).write_bytes(part)
            with pytest.raises(CorpusError, match=complaint):
                read_protoroles(folder)
        (folder / name).unlink()
        with pytest.raises(CorpusError, match=rf"{name}: no such file"):
            read_protoroles(folder)


class TestConlluOfChosenSentences:
    def test_only_the_ids_named_are_parsed_and_lines_are_counted_as_in_the_file(self):
        lines = (SHE_SAW + "1\tbroken\n\n" + DOG).split("\n")
        (sentence,) = parse_conllu(lines, Path("a.conllu"), ids={"doc-2"})
        assert (sentence.id, sentence.source) == ("doc-2", "a.conllu:9")
