"""GUM and the proto-roles as published: sizes, label sets, and layers that agree over the same words."""

from collections import Counter
from pathlib import Path

import pytest

from vestige.corpus.load import load_corpus
from vestige.corpus.readers.brackets import parse_tree
from vestige.corpus.readers.gum import read_gum
from vestige.corpus.types import Corpus
from vestige.errors import CorpusError


@pytest.fixture(scope="module")
def gum(data: Path) -> Corpus:
    return load_corpus(data / "gum" / "gum.tar.gz", format="gum")


@pytest.fixture(scope="module")
def roles(data: Path) -> Corpus:
    return load_corpus(data / "uds_protoroles", format="protoroles")


def labels(corpus: Corpus, task: str) -> Counter[str]:
    return Counter(
        label
        for split in corpus.splits
        for items in corpus.task(task).labels(split)
        for item in items
        for label in item.labels
    )


class TestGum:
    def test_it_has_its_unmasked_sentences(self, gum):
        assert {split: len(items) for split, items in gum.splits.items()} == {"train": 10224, "dev": 1575, "test": 1464}
        assert not any(s.id.startswith("GUM_reddit") for items in gum.splits.values() for s in items)

    def test_every_tree_has_the_words_of_its_sentence(self, gum):
        for split in ("dev", "test"):
            for sentence in gum[split]:
                assert parse_tree(sentence.annotations["brackets"]).words == sentence.words

    def test_phrases_nest_and_cover_the_sentence(self, gum):
        for sentence in gum["test"]:
            spans = [(span.start, span.end) for span in sentence.annotations["constituent"]]
            assert spans[0] == (0, len(sentence.words)) if spans else len(sentence.words) == 1
            for number, (start, end) in enumerate(spans):
                for other_start, other_end in spans[number + 1 :]:
                    assert other_end <= start or other_start >= end or start <= other_start <= other_end <= end

    def test_phrases_have_26_labels_of_the_treebank_and_no_function_tags(self, gum):
        found = labels(gum, "constituent")
        assert len(found) == 26
        assert sum(found.values()) == 194070
        assert [label for label, _ in found.most_common(4)] == ["NP", "VP", "S", "PP"]
        assert not any(set(label) & set("-=|") or label == "ROOT" for label in found)

    def test_entities_have_ten_types(self, gum):
        found = labels(gum, "entity")
        living, things = {"animal", "person", "plant"}, {"object", "organization", "place", "substance"}
        assert {*found} == living | things | {"abstract", "event", "time"}
        assert sum(found.values()) == 65473
        assert all(
            len({span[:2] for span in sentence.annotations["entity"]}) == len(sentence.annotations["entity"])
            for sentence in gum["train"]
        )

    def test_pairs_corefer_or_not_and_a_pronoun_has_the_type_of_what_it_stands_for(self, gum):
        assert labels(gum, "coref") == {"0": 71964, "1": 15253}
        for sentence in gum["train"]:
            types = {(span.start, span.end): span.labels for span in sentence.annotations["entity"]}
            for first, second, label in sentence.annotations["coref"]:
                assert label == ("0",) or types[first] == types[second]

    def test_half_an_archive_is_reported(self, data, tmp_path):
        content = (data / "gum" / "gum.tar.gz").read_bytes()
        (tmp_path / "half.tar.gz").write_bytes(content[: len(content) // 8])
        with pytest.raises(CorpusError, match=r"half\.tar\.gz: not a whole tar archive"):
            read_gum(tmp_path / "half.tar.gz")


class TestProtoroles:
    def test_it_has_its_edges(self, roles):
        edges = {split: sum(map(len, roles.task("protoroles").labels(split))) for split in roles.splits}
        assert edges == {"train": 5669, "dev": 751, "test": 670}
        assert {split: len(items) for split, items in roles.splits.items()} == {"train": 2191, "dev": 291, "test": 276}

    def test_an_edge_has_the_properties_of_an_argument_or_of_a_modifier(self, roles):
        values = [edge for items in roles.splits.values() for s in items for edge in s.annotations["protorole_values"]]
        assert Counter(len(edge) for edge in values) == {14: 6088, 4: 1002}
        assert len(labels(roles, "protoroles")) == 18
        assert all(0 <= confidence <= 1 for edge in values for _, confidence in edge.values())

    def test_labels_are_the_properties_above_zero(self, roles):
        for sentence in roles["test"]:
            values = sentence.annotations["protorole_values"]
            for pair, answers in zip(sentence.annotations["protoroles"], values, strict=True):
                assert {*pair.labels} == {role for role, (value, _) in answers.items() if value > 0}

    def test_predicates_are_verbs_of_ewt(self, roles, data):
        """Positions still fit the present release of EWT: all but 6 of 7090 predicates are verbs there."""
        ewt = load_corpus({split: data / "ud_ewt" / f"en_ewt-ud-{split}.conllu" for split in ("dev", "test")})
        upos = {s.id: s.annotations["upos"] for items in ewt.splits.values() for s in items}
        tags = Counter(
            upos[sentence.id][pair.first[0]]
            for split in ewt.splits
            for sentence in roles[split]
            for pair in sentence.annotations["protoroles"]
        )
        assert tags["VERB"] + tags["AUX"] >= 1419
