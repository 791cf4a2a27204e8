"""`readers.hub` on data sets that the `datasets` library itself has written, and without a network."""

from pathlib import Path

import pytest

from vestige.corpus.load import load_corpus
from vestige.corpus.readers.hub import read_hub
from vestige.errors import CorpusError

datasets = pytest.importorskip("datasets")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Neither reads nor fills the user's caches."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache" / "datasets")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache" / "hub"))


def table(rows: int = 3, **changes) -> "datasets.Dataset":
    """A small data set with a column of every kind."""
    columns = {
        "text": ["It works .", "It does not .", "Why ?"],
        "other": ["Does it ?", "It does .", "So so ."],
        "tokens": [["It", "works", "."], ["It", "fails", "."], ["Why", "?"]],
        "tags": [[0, 1, 2], [0, 1, 2], [0, 2]],
        "heads": [[2, 0, 2], [2, 0, 2], [0, 1]],
        "mood": [1, 0, 1],
        "score": [3.8, 0.0, 5.0],
        "count": [7, 8, 9],
        "name": ["a", "b", "a"],
        **changes,
    }
    features = datasets.Features(
        {
            **{name: datasets.Value("string") for name in ("text", "other", "name")},
            "tokens": datasets.Sequence(datasets.Value("string")),
            "tags": datasets.Sequence(datasets.ClassLabel(names=["PRON", "VERB", "PUNCT"])),
            "heads": datasets.Sequence(datasets.Value("int64")),
            "mood": datasets.ClassLabel(names=["bad", "good"]),
            "score": datasets.Value("float32"),
            "count": datasets.Value("int64"),
        }
    )
    return datasets.Dataset.from_dict({name: values[:rows] for name, values in columns.items()}, features=features)


@pytest.fixture
def parquet(tmp_path) -> Path:
    folder = tmp_path / "parquet"
    folder.mkdir()
    table().to_parquet(folder / "train.parquet")
    table(2).to_parquet(folder / "validation.parquet")
    return folder


def labels(corpus, task: str, split: str = "train") -> list:
    return corpus.task(task).labels(split)


class TestPlaces:
    def test_a_folder_of_parquet_files_keeps_its_classes_and_validation_becomes_dev(self, parquet):
        corpus = load_corpus(parquet, format="hub", words="text", label="mood")
        assert {split: len(found) for split, found in corpus.splits.items()} == {"train": 3, "dev": 2}
        assert corpus["train"][1].words == ("It", "does", "not", ".")
        assert labels(corpus, "mood") == ["good", "bad", "good"]
        assert corpus.levels == {"mood": "sentence"}

    def test_a_folder_of_json_lines(self, tmp_path):
        folder = tmp_path / "json"
        folder.mkdir()
        for name in ("train", "test"):
            (folder / f"{name}.jsonl").write_text('{"text": "a b", "label": "x"}\n{"text": "c", "label": "y"}\n')
        found = read_hub(folder, words="text", label="label")
        assert {split: [s.annotations["label"] for s in rows] for split, rows in found.items()} == {
            "train": ["x", "y"],
            "test": ["x", "y"],
        }

    def test_a_folder_that_save_to_disk_wrote(self, tmp_path):
        datasets.DatasetDict(train=table(), validation=table(1)).save_to_disk(tmp_path / "disk")
        corpus = load_corpus(tmp_path / "disk", format="hub", words="tokens", label="tags")
        assert {split: len(found) for split, found in corpus.splits.items()} == {"train": 3, "dev": 1}
        table(2).save_to_disk(tmp_path / "single")
        assert [len(rows) for rows in read_hub(tmp_path / "single", words="text").values()] == [2]

    @pytest.mark.parametrize("suffix", ["parquet", "jsonl", "csv", "tsv"])
    def test_a_single_file_is_a_training_split(self, tmp_path, suffix):
        file = tmp_path / f"rows.{suffix}"
        rows = table().select_columns(["text", "name"])
        {"parquet": rows.to_parquet, "jsonl": rows.to_json}.get(
            suffix, lambda path: rows.to_csv(path, sep="\t" if suffix == "tsv" else ",")
        )(file)
        found = read_hub(file, words="text", label="name")
        assert [s.annotations["name"] for s in found["train"]] == ["a", "b", "a"]

    def test_a_file_of_another_kind_is_refused_with_the_kinds_there_are(self, tmp_path):
        (tmp_path / "a.txt").write_text("a\n")
        with pytest.raises(CorpusError, match="cannot tell the kind") as raised:
            read_hub(tmp_path / "a.txt", words="text")
        assert ".parquet, .json, .jsonl, .csv" in raised.value.fix

    def test_a_path_that_is_not_there(self, tmp_path):
        with pytest.raises(CorpusError, match="no such file or folder"):
            read_hub(tmp_path / "absent", words="text")

    def test_code_that_a_data_set_brings_is_not_run(self, tmp_path):
        folder = tmp_path / "script"
        folder.mkdir()
        (folder / "script.py").write_text("import pathlib\npathlib.Path(__file__).with_name('ran').touch()\n")
        with pytest.raises(CorpusError) as raised:
            read_hub(folder, words="text")
        assert "no code of data sets" in raised.value.fix
        assert not (folder / "ran").exists()


class TestColumns:
    def test_lists_are_words_and_sequences_of_classes_label_them(self, parquet):
        corpus = load_corpus(parquet, format="hub", words="tokens", label="tags", task="upos")
        assert corpus["train"][2].words == ("Why", "?")
        assert labels(corpus, "upos") == [("PRON", "VERB", "PUNCT"), ("PRON", "VERB", "PUNCT"), ("PRON", "PUNCT")]
        assert corpus.levels == {"upos": "token"}

    def test_lists_of_integers_are_heads_at_level_tree(self, parquet):
        corpus = load_corpus(parquet, format="hub", words="tokens", label="heads", level="tree")
        assert labels(corpus, "heads")[0] == (2, 0, 2)
        assert corpus.levels == {"heads": "tree"}

    def test_floats_are_numbers_and_not_a_float32s_digits(self, parquet):
        corpus = load_corpus(parquet, format="hub", words="text", second="other", label="score")
        assert labels(corpus, "score") == [3.8, 0.0, 5.0]
        assert corpus.levels == {"score": "sentence_pair"}
        assert corpus["train"][0].second == ("Does", "it", "?")

    @pytest.mark.parametrize(
        "column, options, expected",
        [
            ("count", {}, ["7", "8", "9"]),
            ("count", {"numeric": True}, [7.0, 8.0, 9.0]),
            ("score", {"numeric": False}, ["3.799999952316284", "0.0", "5.0"]),
            ("mood", {"names": False}, ["1", "0", "1"]),
            ("mood", {"numeric": True}, [1.0, 0.0, 1.0]),
        ],
    )
    def test_what_labels_become_can_be_said(self, parquet, column, options, expected):
        assert labels(load_corpus(parquet, format="hub", words="text", label=column, **options), column) == expected

    def test_without_a_label_it_is_text_and_blank_rows_go(self, tmp_path):
        table(text=["One .", "  ", "Two ."]).to_parquet(tmp_path / "a.parquet")
        corpus = load_corpus(tmp_path / "a.parquet", format="hub", words="text")
        assert [s.words for s in corpus["train"]] == [("One", "."), ("Two", ".")]
        assert corpus.levels == {"text": "text"}

    def test_ids_are_those_of_other_readers(self, parquet, tmp_path):
        (tmp_path / "a.tsv").write_text("sentence\tlabel\nIt works .\tgood\n")
        from_file = load_corpus(tmp_path / "a.tsv")["train"][0]
        assert read_hub(parquet, words="text", label="mood")["train"][0].id == from_file.id

    def test_a_missing_column_is_answered_with_those_there_are(self, parquet):
        with pytest.raises(CorpusError, match=r"no column 'sentence'; it has text, other, tokens, tags"):
            read_hub(parquet, words="sentence", label="mood")

    def test_a_column_that_holds_no_words(self, parquet):
        with pytest.raises(CorpusError, match=r"train:0: the column 'heads' holds neither text nor a list of words"):
            read_hub(parquet, words="heads")

    def test_a_column_that_holds_no_labels(self, tmp_path):
        datasets.Dataset.from_dict({"text": ["a"], "more": [{"x": 1}]}).to_parquet(tmp_path / "a.parquet")
        with pytest.raises(CorpusError, match="the column 'more' holds no labels"):
            read_hub(tmp_path / "a.parquet", words="text", label="more")


class TestSplitsAndLabels:
    def test_splits_map_our_names_to_theirs_and_leave_others_out(self, parquet):
        found = read_hub(parquet, words="text", label="mood", splits={"test": "validation"})
        assert {split: len(rows) for split, rows in found.items()} == {"test": 2}

    def test_an_unknown_split_is_answered_with_those_there_are(self, parquet):
        with pytest.raises(CorpusError, match="no split 'validation_matched'; it has train, validation"):
            read_hub(parquet, words="text", splits={"dev": "validation_matched"})

    def test_rows_without_a_label_are_left_out_and_counted_and_a_hidden_split_is_not_there(self, tmp_path):
        folder = tmp_path / "hidden"
        folder.mkdir()
        table(mood=[1, -1, 0]).to_parquet(folder / "train.parquet")
        table(mood=[-1, -1, -1]).to_parquet(folder / "test.parquet")
        found = read_hub(folder, words="text", label="mood")
        assert [s.annotations["mood"] for s in found["train"]] == ["good", "bad"]
        assert list(found) == ["train"]
        assert "1 rows without a label left out" in found["train"].notes[0]

    def test_a_class_that_is_none_names_its_row(self, tmp_path):
        table(tags=[[0, 1, 2], [0, -1, 2], [0, 2]]).to_parquet(tmp_path / "a.parquet")
        with pytest.raises(CorpusError, match=r"train:1: \[0, -1, 2\] in the column 'tags' is no label"):
            read_hub(tmp_path / "a.parquet", words="tokens", label="tags")

    def test_a_labelled_row_without_words_is_an_error(self, tmp_path):
        table(text=["fine", "", "fine"]).to_parquet(tmp_path / "a.parquet")
        with pytest.raises(CorpusError, match="train:1: a labelled row without words"):
            read_hub(tmp_path / "a.parquet", words="text", label="mood")


class TestWithoutANetwork:
    def test_an_id_is_answered_with_what_to_download_and_where_to_put_it(self):
        with pytest.raises(CorpusError, match="'some/dataset' is not on this machine") as raised:
            read_hub("some/dataset", words="text")
        assert "hf download --repo-type dataset some/dataset" in raised.value.fix
        assert "HF_HOME" in raised.value.fix and "--local-dir" in raised.value.fix

    def test_what_hf_download_left_in_the_hubs_cache_is_found(self, tmp_path):
        repository = tmp_path / "cache" / "hub" / "datasets--some--dataset"
        snapshot = repository / "snapshots" / ("a" * 40)
        snapshot.mkdir(parents=True)
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text("a" * 40)
        table().to_parquet(snapshot / "train.parquet")
        found = read_hub("some/dataset", words="text", label="mood")
        assert [s.annotations["mood"] for s in found["train"]] == ["good", "bad", "good"]

    def test_parts_of_a_data_set_are_named_by_config(self, tmp_path, parquet):
        parts = "\n".join(f"- config_name: {name}\n  data_files: {name}.parquet" for name in ("train", "validation"))
        (parquet / "README.md").write_text(f"---\nconfigs:\n{parts}\n---\n")
        assert len(read_hub(parquet, words="text", config="validation")["train"]) == 2
        with pytest.raises(CorpusError, match="'absent' not found") as raised:
            read_hub(parquet, words="text", config="absent")
        assert "config=" in raised.value.fix
