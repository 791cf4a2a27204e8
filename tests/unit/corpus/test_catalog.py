"""The catalog: every entry is whole and can be read, and a corpus is found where it may lie."""

from dataclasses import replace
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import get_args

import pytest

from vestige.corpus.catalog import Entry, entries, find_entry
from vestige.corpus.formats import FORMATS
from vestige.corpus.load import load_corpus
from vestige.corpus.readers.hub import read_hub
from vestige.corpus.types import Level
from vestige.errors import CorpusError

PAPERS = {"durrani2020", "durrani2021", "mosbach2020", "merchant2020"}
TREE = "1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_\n\n"


def entry(name: str) -> Entry:
    found = find_entry(name)
    assert found is not None
    return found


@pytest.fixture
def nowhere(tmp_path, monkeypatch) -> Path:
    """A machine without corpora; `data` is where VESTIGE_DATA points, `cache` the cache."""
    monkeypatch.setenv("VESTIGE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("VESTIGE_CACHE", str(tmp_path / "cache"))
    return tmp_path


def put(root: Path, **files: str) -> None:
    root.mkdir(parents=True)
    for name, text in files.items():
        (root / name).write_text(text)


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.name)
class TestEveryEntry:
    def test_says_what_it_is_and_how_to_get_it(self, entry):
        for text in (entry.title, entry.licence, entry.citation, entry.get):
            assert isinstance(text, str) and text.strip() == text and text
        assert entry.get.endswith(".")
        assert {*entry.papers} <= PAPERS

    def test_has_a_known_format_and_options_that_its_reader_takes(self, entry):
        assert entry.format in FORMATS
        module, function = FORMATS[entry.format].reader.split(":")
        reader = getattr(import_module(f"vestige.corpus.readers.{module}"), function)
        signature(reader).bind("source", **entry.options)
        assert isinstance(entry.files, str) == FORMATS[entry.format].whole

    def test_has_tasks_at_known_levels(self, entry):
        assert entry.tasks
        assert {*entry.tasks.values()} <= {*get_args(Level)}

    def test_counts_are_of_splits_that_it_has(self, entry):
        assert all(isinstance(count, int) and count > 0 for count in entry.counts.values())
        if not isinstance(entry.files, str):
            assert {*entry.counts} <= {*entry.files}

    def test_is_fetched_only_where_no_licence_is_needed_and_with_options_that_the_hub_reader_takes(self, entry):
        if entry.hub is None:
            return
        assert not entry.restricted
        options = {name: value for name, value in entry.hub.items() if name != "id"}
        signature(read_hub).bind(entry.hub["id"], **options)
        assert {*entry.tasks} == {options.get("task", "text")}


def test_the_files_of_two_entries_are_not_the_same():
    places = [(e.folder or e.name, str(e.files)) for e in entries()]
    assert len({*places}) == len(places)


@pytest.mark.parametrize("entry", [e for e in entries() if e.builtin], ids=lambda entry: entry.name)
def test_what_is_built_in_is_as_the_catalog_says(entry):
    corpus = load_corpus(entry.name)
    assert {split: len(sentences) for split, sentences in corpus.splits.items()} == entry.counts
    assert corpus.levels == entry.tasks
    assert not corpus.notes


class TestWhereACorpusLies:
    def test_a_missing_one_is_told_with_its_files_the_places_and_how_to_get_it(self, nowhere):
        with pytest.raises(CorpusError, match=r"the corpus 'ptb' .*is not on this machine") as raised:
            load_corpus("ptb")
        assert "parsed/mrg/wsj/02 to parsed/mrg/wsj/21, parsed/mrg/wsj/22" in raised.value.problem
        assert f"{nowhere}/data/treebank_3 or {nowhere}/cache/corpora/treebank_3" in raised.value.problem
        assert "LDC99T42" in raised.value.fix
        assert f"Put the files into {nowhere}/data/treebank_3." in raised.value.fix

    def test_without_a_data_folder_the_cache_is_named_and_the_variable(self, nowhere, monkeypatch):
        monkeypatch.delenv("VESTIGE_DATA")
        with pytest.raises(CorpusError) as raised:
            load_corpus("conll2000")
        assert f"into {nowhere}/cache/corpora/conll2000, or into conll2000 of a folder that VESTIGE_DATA names" in (
            raised.value.fix
        )

    def test_one_that_the_hub_has_says_both_ways_when_there_is_no_network(self, nowhere, monkeypatch):
        pytest.importorskip("datasets")
        monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", nowhere / "hf")
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(nowhere / "hub"))
        with pytest.raises(CorpusError, match=r"'wnli'.*expected train\.tsv, dev\.tsv.*'nyu-mll/glue'") as raised:
            load_corpus("wnli")
        assert f"Put the files into {nowhere}/data/wnli." in raised.value.fix
        assert "hf download --repo-type dataset nyu-mll/glue" in raised.value.fix

    @pytest.mark.parametrize("place", ["data/ud_ewt", "cache/corpora/ud_ewt"])
    def test_both_places_are_looked_into(self, nowhere, place):
        put(nowhere / place, **{"en_ewt-ud-train.conllu": TREE, "en_ewt-ud-dev.conllu": TREE})
        assert entry("ud_ewt").root() == nowhere / place
        assert {*load_corpus("ud_ewt").splits} == {"train", "dev"}

    def test_the_place_with_more_splits_wins_and_else_the_data_folder(self, nowhere):
        put(nowhere / "data" / "ud_ewt", **{"en_ewt-ud-dev.conllu": TREE})
        put(nowhere / "cache" / "corpora" / "ud_ewt", **{"en_ewt-ud-dev.conllu": TREE})
        assert entry("ud_ewt").root() == nowhere / "data" / "ud_ewt"
        (nowhere / "cache" / "corpora" / "ud_ewt" / "en_ewt-ud-train.conllu").write_text(TREE)
        assert entry("ud_ewt").root() == nowhere / "cache" / "corpora" / "ud_ewt"

    def test_a_corpus_of_which_a_part_is_here_has_that_part_and_says_so(self, nowhere):
        put(nowhere / "data" / "qnli", **{"dev.tsv": "index\tquestion\tsentence\tlabel\n0\tWhy ?\tSo .\tentailment\n"})
        corpus = load_corpus("qnli")
        assert {split: len(found) for split, found in corpus.splits.items()} == {"dev": 1}
        assert corpus.notes == ("train is not here (train.tsv)",)

    def test_a_split_of_several_files_needs_all_of_them(self, nowhere):
        parts = replace(entry("ccgbank"), files={"train": ["a", "b"], "dev": "c"})
        put(nowhere / "data" / "ccgbank", a="", c="")
        assert parts.sources(parts.root()) == {"dev": nowhere / "data" / "ccgbank" / "c"}
        assert parts.absent(parts.root()) == {"train": ["a", "b"]}

    def test_options_of_the_entry_reach_its_reader(self, nowhere):
        put(nowhere / "data" / "pmb_semtags", **{"semtag_train.conll": "New~York\tGPE\n.\tNIL\n"})
        assert load_corpus("pmb_semtags").task("semtag").labels("train") == [("GPE", "GPE", "NIL")]

    def test_a_licensed_corpus_is_read_as_its_owner_has_it(self, nowhere):
        wsj = nowhere / "data" / "treebank_3" / "parsed" / "mrg" / "wsj"
        put(wsj / "22", **{"wsj_2200.mrg": "( (S (NP-SBJ (PRP It)) (VP (VBZ rains)) (. .)) )\n"})
        auto = nowhere / "data" / "ccgbank" / "data" / "AUTO" / "00"
        put(auto, **{"wsj_0001.auto": "ID=wsj_0001.1\n(<T N 0 1> (<L N NN NN rain N>) )\n"})
        assert load_corpus("ccgbank").task("ccg").labels("dev") == [("N",)]
        corpus = load_corpus("ptb")
        assert corpus.task("pos").labels("dev") == [("PRP", "VBZ", ".")]
        edges = '{"text": "It rains", "targets": [{"span1": [0, 1], "span2": [1, 2], "label": "ARG0"}]}\n'
        put(nowhere / "data" / "edges" / "ontonotes" / "srl", **{"development.json": edges})
        assert load_corpus("ontonotes_srl").levels == entry("ontonotes_srl").tasks
        put(nowhere / "data" / "senteval", **{"bigram_shift.txt": "tr\tO\tIt rains .\nte\tI\trains It .\n"})
        assert load_corpus("senteval_bigram_shift").levels == entry("senteval_bigram_shift").tasks


def test_names_that_are_no_names_find_nothing():
    assert find_entry("../catalog/treebank") is None
    assert find_entry("absent") is None
