"""Activations of other people's making: what comes in, what goes out, and what is refused."""

import json
import re
from pathlib import Path

import h5py
import numpy as np
import pytest
import tiny

from vestige.cache import writing
from vestige.corpus.types import Sentence
from vestige.errors import RepresentationError, StorageError
from vestige.representations import interchange
from vestige.representations.activation_files import same_words
from vestige.representations.extract import represent
from vestige.representations.interchange import export_activations, import_activations
from vestige.representations.store import FORMAT, Representations, create_layers, write_manifest

TEXTS = ("the lazy dog", "She can't remember", "the lazy dog", "did", "the lazy dog")
SENTENCES = [Sentence(f"s{i}", tuple(text.split()), source=f"text:{i + 1}") for i, text in enumerate(TEXTS)]
SIZES = [len(sentence.words) for sentence in SENTENCES]
LAYERS, WIDTH = 3, 5


def vectors(seed: int = 0, dtype: type = np.float32) -> list[np.ndarray]:
    """Per sentence (layers, words, width)."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(LAYERS, size, WIDTH)).astype(dtype) for size in SIZES]


def hdf5(path: Path, datasets: dict[str, np.ndarray], texts: object = None) -> Path:
    with h5py.File(path, "w") as file:
        for key, values in datasets.items():
            file.create_dataset(key, data=values)
        if texts is not None:
            text = texts if isinstance(texts, str) else json.dumps(texts)
            file.create_dataset("sentence_to_index", data=[text], dtype=h5py.string_dtype())
    return path


def numbered(values: list[np.ndarray]) -> dict[str, np.ndarray]:
    return {str(number): one for number, one in enumerate(values)}


def record(number: int, values: np.ndarray, words: tuple[str, ...]) -> dict:
    features = [
        {"token": word, "layers": [{"index": i, "values": layer[place].tolist()} for i, layer in enumerate(values)]}
        for place, word in enumerate(words)
    ]
    return {"linex_index": number, "features": features}


def records(values: list[np.ndarray]) -> list[dict]:
    return [record(n, one, s.words) for n, (one, s) in enumerate(zip(values, SENTENCES, strict=True))]


def jsonl(path: Path, lines: list) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def assert_holds(found: Representations, values: list[np.ndarray]) -> None:
    for layer in range(LAYERS):
        np.testing.assert_array_equal(found.layer(layer), np.concatenate([one[layer] for one in values]))


def readable(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("manifest.json") if ".part" not in str(path)]


class TestImport:
    def test_hdf5_is_read_by_number_whatever_the_order_of_keys_and_map(self, tmp_path, cache):
        values = vectors() + vectors(1) + vectors(2)
        sentences = [Sentence(f"{n}", SENTENCES[n % 5].words) for n in range(15)]
        texts = {f"{s.text} (Occurrence {n})": str(n) for n, s in reversed(list(enumerate(sentences)))}
        path = hdf5(tmp_path / "a.hdf5", dict(reversed(numbered(values).items())), texts)
        found = import_activations(path, sentences, cache=cache)
        assert_holds(found, values)
        assert found.index.tolist() == [[n, w] for n, s in enumerate(sentences) for w in range(len(s.words))]

    def test_the_manifest_says_what_is_there(self, tmp_path, cache):
        path = hdf5(tmp_path / "bert.hdf5", numbered(vectors()))
        found = import_activations(path, SENTENCES, cache=cache)
        expected = {
            "format": FORMAT,
            "model": "bert",
            "pooling": "given",
            "widths": [WIDTH] * LAYERS,
            "rows": sum(SIZES),
            "sentences": len(SENTENCES),
            "words": sum(SIZES),
            "truncated_sentences": 0,
            "truncated_words": 0,
            "vanished_words": 0,
        }
        assert expected.items() <= found.manifest.items()
        assert found.manifest == Representations.open(found.folder).manifest
        assert (found.layers, found.widths, len(found)) == (LAYERS, [WIDTH] * LAYERS, sum(SIZES))
        assert isinstance(found.layer(0), np.memmap)

    def test_it_has_all_that_a_manifest_of_represent_has(self, tmp_path, cache, tiny_encoder):
        own = represent(tiny_encoder("bert"), SENTENCES, cache=cache)["last"]
        given = import_activations(hdf5(tmp_path / "a.hdf5", numbered(vectors())), SENTENCES, cache=cache)
        assert given.manifest.keys() == own.manifest.keys()
        assert {f.name for f in given.folder.iterdir()} == {f.name for f in own.folder.iterdir()} - {"layer03.npy"}
        assert (given.index.dtype, given.layer(0).dtype) == (own.index.dtype, own.layer(0).dtype)

    def test_zero_at_every_layer_counts_as_vanished(self, tmp_path, cache):
        values = vectors()
        values[0][:, 1] = 0
        values[1][1:, 0] = 0
        found = import_activations(hdf5(tmp_path / "a.hdf5", numbered(values)), SENTENCES, cache=cache)
        assert found.manifest["vanished_words"] == 1

    def test_two_dimensions_are_one_layer(self, tmp_path, cache):
        values = [one[0] for one in vectors()]
        found = import_activations(hdf5(tmp_path / "a.h5", numbered(values)), SENTENCES, cache=cache)
        assert found.layers == 1
        np.testing.assert_array_equal(found.layer(0), np.concatenate(values))

    @pytest.mark.parametrize("dtype", [np.float16, np.float64])
    def test_other_floats_become_float32(self, tmp_path, cache, dtype):
        values = vectors(dtype=dtype)
        found = import_activations(hdf5(tmp_path / "a.hdf5", numbered(values)), SENTENCES, cache=cache)
        assert found.layer(0).dtype == np.float32
        assert_holds(found, [one.astype(np.float32) for one in values])

    def test_json_lines_are_read_by_their_number_and_layers_by_their_index(self, tmp_path, cache):
        values = vectors()
        lines = records(values)[::-1]
        for feature in lines[0]["features"]:
            feature["layers"].reverse()
        path = jsonl(tmp_path / "a.json", [lines[0], "", *lines[1:]])
        assert_holds(import_activations(path, SENTENCES, cache=cache), values)

    def test_json_layers_may_differ_in_width(self, tmp_path, cache):
        lines = records(vectors())
        for line in lines:
            for feature in line["features"]:
                del feature["layers"][0]["values"][2:]
        assert import_activations(jsonl(tmp_path / "a.jsonl", lines), SENTENCES, cache=cache).widths == [2, 5, 5]

    def test_both_segments_of_a_pair_are_its_words(self, tmp_path, cache):
        pair = Sentence("p", ("the", "lazy"), ("dog",))
        path = hdf5(tmp_path / "a.hdf5", {"0": vectors()[0]}, {"the lazy dog": "0"})
        assert import_activations(path, [pair], cache=cache).index.tolist() == [[0, 0], [0, 1], [0, 2]]


class TestCache:
    def test_a_second_import_reads_nothing(self, tmp_path, cache, monkeypatch):
        path = hdf5(tmp_path / "a.hdf5", numbered(vectors()))
        first = import_activations(path, SENTENCES, cache=cache)
        monkeypatch.setattr(interchange, "_store", None)
        again = import_activations(path.rename(tmp_path / "b.hdf5"), SENTENCES, name="other", cache=cache)
        assert again.folder == first.folder
        assert (first.manifest["model"], again.manifest["model"]) == ("a", "other")

    def test_other_words_other_contents_are_other_folders(self, tmp_path, cache):
        path = hdf5(tmp_path / "a.hdf5", numbered(vectors()))
        other = hdf5(tmp_path / "b.hdf5", numbered(vectors(1)))
        changed = [Sentence("x", ("The", "lazy", "dog")), *SENTENCES[1:]]
        found = [
            import_activations(path, SENTENCES, cache=cache),
            import_activations(other, SENTENCES, cache=cache),
            import_activations(path, changed, cache=cache),
        ]
        assert len({one.folder for one in found}) == 3
        assert len({one.manifest["fingerprint"] for one in found}) == 2

    def test_what_passed_unchecked_does_not_pass_the_check(self, tmp_path, cache):
        path = hdf5(tmp_path / "a.hdf5", numbered(vectors()), {"a whole other": "0"})
        import_activations(path, SENTENCES, cache=cache, check_words=False)
        with pytest.raises(RepresentationError, match="a whole other"):
            import_activations(path, SENTENCES, cache=cache)


class TestSameWords:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("the lazy dog", "the lazy dog"),
            ("the lazy dog (Occurrence 12)", "the lazy dog"),
            ("see (Occurrence 2)", "see (Occurrence 2)"),
            ("see (Occurrence 2) (Occurrence 2)", "see (Occurrence 2)"),
            ("the la##z##y do##g", "The Lazy dog"),
            ("the Ġlazy Ġdog", "the lazy dog"),
            ("ĠcafÃ© Ġå¤§", "café 大"),
            ("▁the ▁lazy", "the lazy"),
            ("the</w> la@@zy", "the lazy"),
            ("cafe ﬁsh", "Café fish"),
            ("stra##ße", "Straße"),
            ("the [UNK] dog", "the ☃ dog"),
            ("well-[UNK] <unk> <0xE2><0x98><0x83>", "well-☃ x ☃"),
            ("the  dog", "the \u200b dog"),
            (" the ", "\u200b the \u00ad"),
            ("the  dog", "the [SEP] dog"),
        ],
    )
    def test_what_tokenizers_do_to_words_is_allowed(self, text, words):
        assert same_words(text, words.split(" "))

    @pytest.mark.parametrize("text", ["a dog", "the dogs", "dog the", "the dog .", "thedog", "", "the d##og##s"])
    def test_other_words_are_not(self, text):
        assert not same_words(text, ("the", "dog"))

    def test_words_with_spaces_are_compared_as_a_whole(self):
        assert same_words("10 000 dogs", ("10 000", "dogs"))
        assert not same_words("10 001 dogs", ("10 000", "dogs"))


class TestWhatIsRefused:
    def refuse(self, path, cache, match, sentences=SENTENCES) -> RepresentationError:
        with pytest.raises(RepresentationError, match=match) as raised:
            import_activations(path, sentences, cache=cache)
        assert raised.value.fix
        assert not readable(cache)
        assert not list(cache.rglob("*.npy"))
        return raised.value

    def test_another_number_of_words(self, tmp_path, cache):
        values = vectors()
        values[3] = values[0]
        path = hdf5(tmp_path / "a.hdf5", numbered(values))
        self.refuse(path, cache, r"dataset '3': 3 vectors, but the sentence \(text:4\) has 1 words")
        lines = records(vectors())
        del lines[1]["features"][0]
        self.refuse(jsonl(tmp_path / "a.json", lines), cache, r"a\.json:2: 2 vectors.*text:2.*has 3 words")

    def test_other_words(self, tmp_path, cache):
        path = hdf5(tmp_path / "a.hdf5", numbered(vectors()), {"the lazy cat": "2"})
        error = self.refuse(path, cache, r"dataset '2': the file has 'the lazy cat'.*text:3.*'the lazy dog'")
        assert "check_words=False" in error.fix
        lines = records(vectors())
        lines[4]["features"][2]["token"] = "cat"
        self.refuse(jsonl(tmp_path / "a.json", lines), cache, r"a\.json:5: the file has 'the lazy cat'")

    def test_a_missing_sentence(self, tmp_path, cache):
        values = numbered(vectors())
        del values["1"]
        self.refuse(hdf5(tmp_path / "a.hdf5", values), cache, r"no activations of sentence 1 \(text:2\); it has 4 of 5")
        self.refuse(jsonl(tmp_path / "a.json", records(vectors())[:-1]), cache, r"sentence 4 \(text:5\)")
        self.refuse(hdf5(tmp_path / "b.hdf5", {}), cache, r"sentence 0 \(text:1\); it has 0 of 5")

    def test_more_sentences_than_were_given(self, tmp_path, cache):
        path = hdf5(tmp_path / "a.hdf5", numbered(vectors()))
        self.refuse(path, cache, "dataset '4': sentence 4, but only 4 sentences were given", SENTENCES[:4])
        self.refuse(path, cache, "no sentences were given", [])
        self.refuse(jsonl(tmp_path / "a.json", [record(-1, vectors()[0], SENTENCES[0].words)]), cache, "sentence -1")

    def test_the_same_sentence_twice(self, tmp_path, cache):
        lines = records(vectors())
        self.refuse(jsonl(tmp_path / "a.json", [*lines, lines[2]]), cache, r"a\.json:6: sentence 2 for the second time")

    def test_layers_that_differ_between_sentences(self, tmp_path, cache):
        values = vectors()
        values[2] = values[2][:2]
        path = hdf5(tmp_path / "a.hdf5", numbered(values))
        self.refuse(
            path, cache, r"dataset '2': layers of the widths \[5, 5\], where the first sentence has \[5, 5, 5\]"
        )
        values = vectors()
        values[2] = values[2][:, :, :4]
        self.refuse(jsonl(tmp_path / "a.json", records(values)), cache, r"a\.json:3: layers of the widths \[4, 4, 4\]")
        self.refuse(hdf5(tmp_path / "b.hdf5", {"0": vectors()[0][:0]}), cache, "not a single layer", SENTENCES[:1])

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_values_that_are_not_finite(self, tmp_path, cache, value):
        values = vectors()
        values[4][1, 2, 3] = value
        path = hdf5(tmp_path / "a.hdf5", numbered(values))
        self.refuse(path, cache, "dataset '4', layer 1: NaN or infinite")
        self.refuse(jsonl(tmp_path / "a.json", records(values)), cache, r"a\.json:5, layer 1: NaN or infinite")

    def test_values_too_large_for_float32(self, tmp_path, cache, recwarn):
        values = vectors(dtype=np.float64)
        values[0][2, 0, 0] = 1e300
        path = hdf5(tmp_path / "a.hdf5", numbered(values))
        self.refuse(path, cache, "dataset '0', layer 2: NaN or infinite")
        assert not recwarn.list

    def test_a_damaged_hdf5_file(self, tmp_path, cache):
        whole = hdf5(tmp_path / "a.hdf5", numbered(vectors())).read_bytes()
        for number, content in enumerate((b"", b"no such thing", whole[: len(whole) // 2], whole[:-1])):
            path = tmp_path / f"b{number}.hdf5"
            path.write_bytes(content)
            self.refuse(path, cache, rf"b{number}\.hdf5: cannot be read as HDF5")

    def test_a_damaged_dataset(self, tmp_path, cache):
        path = tmp_path / "a.hdf5"
        with h5py.File(path, "w") as file:
            for key, values in numbered(vectors()).items():
                file.create_dataset(key, data=values, fletcher32=True, chunks=values.shape)
            place = file["2"].id.get_chunk_info(0).byte_offset
        content = bytearray(path.read_bytes())
        content[place] ^= 255
        path.write_bytes(content)
        self.refuse(path, cache, r"a\.hdf5, dataset '2': cannot be read as HDF5")

    @pytest.mark.parametrize(
        "values", [np.zeros(3, np.float32), np.zeros((1, 1, 3, 5), np.float32), np.full((3, 5), b"x")]
    )
    def test_datasets_of_another_shape_or_kind(self, tmp_path, cache, values):
        path = hdf5(tmp_path / "a.hdf5", {"0": values})
        self.refuse(path, cache, r"dataset '0': expected numbers of shape \(layers, words, width\)", SENTENCES[:1])

    def test_a_group_in_the_place_of_a_dataset(self, tmp_path, cache):
        with h5py.File(tmp_path / "a.hdf5", "w") as file:
            file.create_group("0")
        self.refuse(tmp_path / "a.hdf5", cache, "dataset '0': expected numbers.*found a group", SENTENCES[:1])

    @pytest.mark.parametrize("texts", ["{", "[1]", '{"the lazy dog": "first"}', '{"the lazy dog": null}'])
    def test_a_map_that_is_none(self, tmp_path, cache, texts):
        path = hdf5(tmp_path / "a.hdf5", numbered(vectors()), texts)
        self.refuse(path, cache, "dataset 'sentence_to_index': expected one JSON object")

    @pytest.mark.parametrize(
        ("spoil", "reason"),
        [
            (lambda line: json.dumps(line)[:-30], "delimiter|Expecting|Unterminated"),
            (lambda line: "[1, 2]", "list"),
            (lambda line: {"features": line["features"]}, "no 'linex_index'"),
            (lambda line: {**line, "linex_index": "1"}, "linex_index is '1'"),
            (lambda line: {**line, "linex_index": True}, "linex_index is True"),
            (lambda line: {**line, "features": [{"token": "x"}] * 3}, "no 'layers'"),
            (lambda line: {**line, "features": [*line["features"][:2], {"token": "x", "layers": []}]}, "same layers"),
        ],
    )
    def test_a_malformed_json_line_is_named(self, tmp_path, cache, spoil, reason):
        lines = records(vectors())
        lines[1] = spoil(lines[1])
        path = jsonl(tmp_path / "a.json", lines)
        self.refuse(path, cache, rf"a\.json:2: expected one sentence of NeuroX's JSON activations \(.*({reason})")

    @pytest.mark.parametrize("values", [[1.0, 2.0], ["1"] * WIDTH, [None] * WIDTH, "12345", [[1.0]] * WIDTH])
    def test_a_layer_that_is_no_vector_is_named(self, tmp_path, cache, values):
        lines = records(vectors())
        lines[1]["features"][2]["layers"][1]["values"] = values
        self.refuse(jsonl(tmp_path / "a.json", lines), cache, r"a\.json:2: .*layer 1 ")

    def test_a_layer_told_twice_is_named(self, tmp_path, cache):
        lines = records(vectors())
        for feature in lines[0]["features"]:
            feature["layers"][1]["index"] = 0
        self.refuse(jsonl(tmp_path / "a.json", lines), cache, r"a\.json:1: .*same layers")

    def test_bytes_that_are_no_text(self, tmp_path, cache):
        (tmp_path / "a.json").write_bytes(b'{"linex_index": 0, "features": "\xff"}\n')
        self.refuse(tmp_path / "a.json", cache, r"a\.json:1: expected one sentence")

    def test_no_file_and_no_format(self, tmp_path, cache):
        self.refuse(tmp_path / "none.hdf5", cache, r"none\.hdf5: no such file")
        self.refuse(tmp_path / "a.pt", cache, r"a\.pt: \.pt is no format of activations")


class TestExport:
    @pytest.fixture
    def own(self, tiny_encoder, cache) -> Representations:
        return represent(tiny_encoder("bert"), SENTENCES, cache=cache)["last"]

    @pytest.mark.parametrize("suffix", ["hdf5", "json"])
    @pytest.mark.parametrize("dtype", ["float32", "float16"])
    def test_what_goes_out_comes_in_again_bit_by_bit(self, tiny_encoder, cache, tmp_path, suffix, dtype):
        own = represent(tiny_encoder("bert"), SENTENCES, dtype=dtype, cache=cache)["last"]
        path = tmp_path / "deep" / f"a.{suffix}"
        export_activations(own, SENTENCES, path)
        found = import_activations(path, SENTENCES, cache=cache)
        assert found.layers == own.layers == 4
        np.testing.assert_array_equal(found.index, own.index)
        for layer in range(4):
            np.testing.assert_array_equal(found.layer(layer), own.layer(layer).astype(np.float32))
        assert [file.name for file in path.parent.iterdir()] == [path.name]

    def test_imported_activations_can_be_exported(self, tmp_path, cache):
        given = import_activations(hdf5(tmp_path / "a.hdf5", numbered(vectors())), SENTENCES, cache=cache)
        export_activations(given, SENTENCES, tmp_path / "b.json")
        assert_holds(import_activations(tmp_path / "b.json", SENTENCES, cache=cache), vectors())

    def test_small_and_large_values_keep_all_their_bits(self, tmp_path, cache):
        values = vectors()
        values[0][0, 0] = [1e-30, -3.4028235e38, 1 / 3, 16777217, 1e-45]
        given = import_activations(hdf5(tmp_path / "a.hdf5", numbered(values)), SENTENCES, cache=cache)
        export_activations(given, SENTENCES, tmp_path / "b.json")
        assert_holds(import_activations(tmp_path / "b.json", SENTENCES, cache=cache), values)

    def test_hdf5_has_a_dataset_per_sentence_and_a_map_of_texts(self, own, tmp_path):
        export_activations(own, SENTENCES, tmp_path / "a.hdf5")
        with h5py.File(tmp_path / "a.hdf5") as file:
            assert set(file) == {"0", "1", "2", "3", "4", "sentence_to_index"}
            assert [file[str(n)].shape for n in range(5)] == [(4, size, 32) for size in SIZES]
            assert file["0"].dtype == np.float32
            assert json.loads(file["sentence_to_index"][0]) == {
                "the lazy dog": "0",
                "She can't remember": "1",
                "the lazy dog (Occurrence 2)": "2",
                "did": "3",
                "the lazy dog (Occurrence 3)": "4",
            }

    def test_json_has_a_line_per_sentence(self, own, tmp_path):
        export_activations(own, SENTENCES, tmp_path / "a.json")
        lines = [json.loads(line) for line in (tmp_path / "a.json").read_text().splitlines()]
        assert [line["linex_index"] for line in lines] == list(range(5))
        assert [[f["token"] for f in line["features"]] for line in lines] == [list(s.words) for s in SENTENCES]
        assert [layer["index"] for layer in lines[1]["features"][2]["layers"]] == [0, 1, 2, 3]
        value = lines[1]["features"][2]["layers"][3]["values"][7]
        assert np.float32(value) == own.layer(3)[5, 7]

    def test_a_text_that_ends_like_an_occurrence_stays_itself(self, tiny_encoder, cache, tmp_path):
        texts = ("dog", "dog (Occurrence 2)", "dog")
        sentences = [Sentence(str(n), tuple(text.split(" "))) for n, text in enumerate(texts)]
        own = represent(tiny_encoder("bert"), sentences, cache=cache)["last"]
        export_activations(own, sentences, tmp_path / "a.hdf5")
        with h5py.File(tmp_path / "a.hdf5") as file:
            assert list(json.loads(file["sentence_to_index"][0])) == [*texts[:2], "dog (Occurrence 3)"]
        assert len(import_activations(tmp_path / "a.hdf5", sentences, cache=cache)) == 5

    def test_vanished_words_go_out_as_zeros_but_not_if_they_were_skipped(self, tiny_encoder, cache, tmp_path):
        sentences = [SENTENCES[0], Sentence("v", ("the", "\u200b", "dog"), source="v.txt:8")]
        zero, skip = (
            represent(tiny_encoder("bert"), sentences, on_vanished=policy, cache=cache)["last"]
            for policy in ("zero", "skip")
        )
        export_activations(zero, sentences, tmp_path / "a.hdf5")
        found = import_activations(tmp_path / "a.hdf5", sentences, cache=cache)
        assert found.manifest["vanished_words"] == 1
        assert not found.layer(3)[4].any()
        with pytest.raises(RepresentationError, match=r"2 vectors for the 3 words of v\.txt:8") as raised:
            export_activations(skip, sentences, tmp_path / "b.hdf5")
        assert "on_vanished" in raised.value.fix
        assert not (tmp_path / "b.hdf5").exists()

    def test_shortened_sentences_are_refused(self, tiny_encoder, cache, tmp_path):
        long = [SENTENCES[0], Sentence("long", tuple(" ".join(tiny.TEXT).split()), source="long.txt:3")]
        own = represent(tiny_encoder("bert"), long, cache=cache)["last"]
        with pytest.raises(RepresentationError, match=r"\d+ vectors for the \d+ words of long\.txt:3"):
            export_activations(own, long, tmp_path / "a.hdf5")

    def test_other_sentences_are_refused(self, own, tmp_path):
        with pytest.raises(RepresentationError, match="representations of 5 sentences, but 4 were given"):
            export_activations(own, SENTENCES[:4], tmp_path / "a.hdf5")
        with pytest.raises(RepresentationError, match="are of other words than those given"):
            export_activations(own, [SENTENCES[3], *SENTENCES[1:]], tmp_path / "a.hdf5")

    def test_sentence_vectors_are_refused(self, tiny_encoder, cache, tmp_path):
        own = represent(tiny_encoder("bert"), SENTENCES, ("cls",), cache=cache)["cls"]
        with pytest.raises(RepresentationError, match="'cls' gives one per sentence"):
            export_activations(own, SENTENCES, tmp_path / "a.hdf5")

    def test_layers_of_several_widths_are_refused(self, tmp_path):
        manifest = {"pooling": "last", "widths": [3, 4], "rows": 1, "sentences": 1}
        with writing(tmp_path / "own") as folder:
            create_layers(folder, 1, (3, 4), "float32")
            write_manifest(folder, np.zeros((1, 2), np.int32), manifest)
        with pytest.raises(RepresentationError, match=r"one width for all layers, these have \[3, 4\]"):
            export_activations(Representations.open(tmp_path / "own"), SENTENCES[3:4], tmp_path / "a.json")

    @pytest.mark.parametrize("name", ["a.h5", "a.jsonl", "a"])
    def test_suffixes_that_neurox_does_not_know_are_refused(self, own, tmp_path, name):
        with pytest.raises(RepresentationError, match="no format of activations") as raised:
            export_activations(own, SENTENCES, tmp_path / name)
        assert ".hdf5, .json" in raised.value.fix

    @pytest.mark.parametrize("suffix", ["hdf5", "json"])
    def test_what_fails_half_way_leaves_the_old_file(self, own, tmp_path, suffix):
        path = tmp_path / f"a.{suffix}"
        export_activations(own, SENTENCES, path)
        before = path.read_bytes()
        with writing(tmp_path / "short") as short:
            for file in own.folder.iterdir():
                (short / file.name).write_bytes(file.read_bytes())
            np.save(short / "layer02.npy", np.zeros((8, 32), np.float32))
        with pytest.raises(ValueError, match="same shape"):
            export_activations(Representations.open(tmp_path / "short"), SENTENCES, path)
        assert path.read_bytes() == before
        assert {file.name for file in tmp_path.iterdir()} == {path.name, "short", "cache"}

    def test_a_place_that_cannot_be_written_is_a_storage_error(self, own, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(StorageError, match=re.escape(f"cannot write into {tmp_path / 'file'}")):
            export_activations(own, SENTENCES, tmp_path / "file" / "a.hdf5")
