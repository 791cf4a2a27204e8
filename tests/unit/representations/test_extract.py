"""`represent`: what is written, what is found again, and what is refused."""

import errno
import json
import os
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch

from vestige.corpus.types import Sentence
from vestige.errors import RepresentationError, StorageError
from vestige.models.files.load import load_model
from vestige.representations.extract import represent
from vestige.representations.store import FORMAT, Representations, create_layers

SENTENCES = [Sentence(f"s{i}", tuple(line.split()), source=f"text:{i + 1}") for i, line in enumerate(tiny.TEXT[:3])]
WORDS = sum(len(sentence.words) for sentence in SENTENCES)


@pytest.fixture
def encoder(tiny_encoder):
    return tiny_encoder("bert")


def broken(change) -> object:
    """A tiny BERT whose second block was changed."""
    model = tiny.model("bert")
    with torch.no_grad():
        change(model.encoder.layer[1].output.LayerNorm)
    return load_model(model, tokenizer=tiny.tokenizer("bert"), name="spoilt")


def readable(cache: Path) -> list[Path]:
    """The folders of representations that a reader would find."""
    return [path.parent for path in cache.rglob("manifest.json") if ".part" not in str(path)]


class TestWhatIsWritten:
    def test_pieces_have_a_row_for_every_token_of_every_word(self, encoder, cache):
        found = represent(encoder, SENTENCES, ("pieces", "first", "last", "mean"), cache=cache)
        expected = [
            (number, word)
            for number, encoded in enumerate(encoder.encode(SENTENCES))
            for word in encoded.word_of
            if word >= 0
        ]
        pieces = found["pieces"]
        assert list(map(tuple, pieces.index.tolist())) == expected and len(expected) > WORDS
        groups = [[row for row, place in enumerate(expected) if place == word] for word in dict.fromkeys(expected)]
        for layer in range(4):
            values = pieces.layer(layer)
            np.testing.assert_array_equal(found["first"].layer(layer), values[[group[0] for group in groups]])
            np.testing.assert_array_equal(found["last"].layer(layer), values[[group[-1] for group in groups]])
            means = np.stack([values[group].mean(0) for group in groups])
            np.testing.assert_allclose(found["mean"].layer(layer), means, atol=1e-6)

    def test_the_manifest_says_what_is_there(self, encoder, cache):
        found = represent(encoder, SENTENCES, ("last", "cls"), cache=cache)
        expected = {
            "format": FORMAT,
            "model": "tiny bert",
            "fingerprint": encoder.fingerprint,
            "widths": [32, 32, 32, 32],
            "sentences": 3,
            "words": WORDS,
            "truncated_sentences": 0,
            "truncated_words": 0,
            "vanished_words": 0,
        }
        for pooling, rows in (("last", WORDS), ("cls", 3)):
            manifest = json.loads((found[pooling].folder / "manifest.json").read_text())
            assert manifest == found[pooling].manifest
            assert expected.items() <= manifest.items()
            assert (manifest["pooling"], manifest["rows"], len(found[pooling])) == (pooling, rows, rows)

    def test_the_index_names_sentence_and_word_of_every_row(self, encoder, cache):
        found = represent(encoder, SENTENCES, ("first", "sentence_mean"), cache=cache)
        expected = [[s, w] for s, sentence in enumerate(SENTENCES) for w in range(len(sentence.words))]
        assert found["first"].index.tolist() == expected
        assert found["sentence_mean"].index.tolist() == [[0, -1], [1, -1], [2, -1]]

    def test_layers_are_memory_mapped_read_only_arrays(self, encoder, cache):
        layer = represent(encoder, SENTENCES, cache=cache)["last"].layer(3)
        assert isinstance(layer, np.memmap)
        assert (layer.shape, layer.dtype) == ((WORDS, 32), np.float32)
        with pytest.raises(ValueError, match="read-only"):
            layer[0] = 0

    def test_float16_halves_the_bytes_and_rounds(self, encoder, cache):
        whole, half = (represent(encoder, SENTENCES, dtype=d, cache=cache)["last"] for d in ("float32", "float16"))
        assert half.layer(2).nbytes * 2 == whole.layer(2).nbytes
        np.testing.assert_array_equal(half.layer(2), whole.layer(2).astype(np.float16))

    def test_no_sentences_are_no_rows(self, encoder, cache):
        found = represent(encoder, [], ("last", "cls"), cache=cache)
        assert [len(found[pooling]) for pooling in found] == [0, 0]
        assert found["last"].layer(0).shape == (0, 32)
        assert found["cls"].index.shape == (0, 2)


class TestCache:
    @pytest.fixture
    def passes(self, encoder, monkeypatch) -> list[int]:
        """The sizes of the batches that the model is shown from now on."""
        encoder.widths  # noqa: B018 (the one pass that finds them)
        shown = []
        honest = encoder.hidden_states
        monkeypatch.setattr(encoder, "hidden_states", lambda batch: shown.append(len(batch)) or honest(batch))
        return shown

    def test_what_is_there_costs_no_forward_pass(self, encoder, cache, passes):
        first = represent(encoder, SENTENCES, ("last", "mean"), cache=cache)
        assert sum(passes) == len(SENTENCES)
        again = represent(encoder, SENTENCES, ("mean", "last"), cache=cache)
        assert sum(passes) == len(SENTENCES)
        assert {p: r.folder for p, r in again.items()} == {p: r.folder for p, r in first.items()}

    def test_numbers_of_one_device_are_not_taken_for_those_of_another(self, cache):
        encoder = load_model(tiny.model("bert"), tokenizer=tiny.tokenizer("bert"), name="moved")
        represent(encoder, SENTENCES, cache=cache)
        encoder.device = torch.device("cuda")
        with pytest.raises((RuntimeError, AssertionError)):  # it runs the model, which is not there
            represent(encoder, SENTENCES, cache=cache)

    def test_another_pooling_asked_for_later_is_added_and_the_first_left_alone(self, encoder, cache, passes):
        last = represent(encoder, SENTENCES, ("last",), cache=cache)["last"]
        before = {file.name: file.stat().st_mtime_ns for file in last.folder.iterdir()}
        both = represent(encoder, SENTENCES, ("last", "mean"), cache=cache)
        assert sum(passes) == 2 * len(SENTENCES)
        assert {file.name: file.stat().st_mtime_ns for file in last.folder.iterdir()} == before
        assert both["mean"].folder.parent == last.folder.parent
        assert not np.array_equal(both["mean"].layer(1), both["last"].layer(1))

    @pytest.mark.parametrize(
        ("others", "options"),
        [
            (SENTENCES[:2], {}),
            (SENTENCES[::-1], {}),
            ([Sentence("other", SENTENCES[0].words), *SENTENCES[1:]], {}),
            (SENTENCES, {"dtype": "float16"}),
            (SENTENCES, {"on_vanished": "skip"}),
            (SENTENCES, {"on_overflow": "error"}),
        ],
    )
    def test_other_sentences_or_options_are_other_folders(self, encoder, cache, others, options):
        first = represent(encoder, SENTENCES, cache=cache)["last"]
        assert represent(encoder, others, cache=cache, **options)["last"].folder != first.folder

    def test_another_model_is_another_folder(self, encoder, tiny_encoder, cache):
        folders = {represent(e, SENTENCES, cache=cache)["last"].folder for e in (encoder, tiny_encoder("roberta"))}
        assert len(folders) == 2

    def test_labels_play_no_role(self, encoder, cache, passes):
        labelled = [Sentence(s.id, s.words, annotations={"tag": "A"}, source="elsewhere") for s in SENTENCES]
        represent(encoder, SENTENCES, cache=cache)
        represent(encoder, labelled, cache=cache)
        assert sum(passes) == len(SENTENCES)

    def test_an_unreadable_manifest_is_reported_with_its_folder_and_made_again(self, encoder, cache):
        folder = represent(encoder, SENTENCES, cache=cache)["last"].folder
        before = (folder / "manifest.json").read_bytes()
        (folder / "manifest.json").write_text("{")
        with pytest.raises(StorageError, match=f"{re.escape(str(folder))} is damaged: manifest.json has 1 bytes"):
            Representations.open(folder)
        represent(encoder, SENTENCES, cache=cache)
        assert (folder / "manifest.json").read_bytes() == before

    def test_a_layer_that_changed_is_found_when_it_is_read_and_made_again(self, encoder, cache, caplog):
        made = represent(encoder, SENTENCES, cache=cache)["last"]
        before = (made.folder / "layer01.npy").read_bytes()
        (made.folder / "layer01.npy").write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        found = represent(encoder, SENTENCES, cache=cache)["last"]
        assert len(found.layer(0)) == len(found)
        with pytest.raises(StorageError, match=r"layer01.npy has changed"):
            found.layer(1)
        assert [record.message for record in caplog.records] == [
            f"{made.folder} is damaged (layer01.npy has changed); it is made again"
        ]
        represent(encoder, SENTENCES, cache=cache)["last"].layer(1)
        assert (made.folder / "layer01.npy").read_bytes() == before


class TestWhatIsRefused:
    def test_an_unknown_pooling_is_answered_with_those_there_are(self, encoder, cache):
        with pytest.raises(RepresentationError, match="unknown pooling 'lats'") as raised:
            represent(encoder, SENTENCES, ("last", "lats"), cache=cache)
        assert "sentence_mean" in raised.value.fix
        assert not cache.exists()

    def test_nan_weights_are_reported_with_model_layer_and_sentence_and_leave_nothing(self, cache):
        spoilt = broken(lambda norm: norm.weight[0].fill_(float("nan")))
        with pytest.raises(RepresentationError, match=r"spoilt, layer 2: NaN or infinite activations.*text:"):
            represent(spoilt, SENTENCES, ("last", "cls"), cache=cache)
        assert not readable(cache)
        assert not list(cache.rglob("*.npy"))

    def test_values_too_large_for_float16_are_reported_with_model_and_layer(self, cache, recwarn):
        loud = broken(lambda norm: norm.weight.fill_(1e6))
        with pytest.raises(RepresentationError, match="spoilt, layer 2: values too large for float16"):
            represent(loud, SENTENCES, dtype="float16", cache=cache)
        assert not readable(cache)
        assert not recwarn.list
        assert len(represent(loud, SENTENCES, cache=cache)["last"]) == WORDS


class TestBadDisks:
    def test_a_full_disk_is_a_storage_error_and_leaves_nothing(self, encoder, cache, monkeypatch):
        def full(*_: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "posix_fallocate", full)
        with pytest.raises(StorageError, match=r"the disk that holds .* is full") as raised:
            represent(encoder, SENTENCES, ("last", "mean"), cache=cache)
        assert "VESTIGE_CACHE" in raised.value.fix
        assert not list(cache.rglob("*.npy"))

    def test_the_space_of_every_layer_is_claimed_before_the_first_pass(self, tmp_path):
        create_layers(tmp_path, 1000, (64, 64), "float32")
        for file in tmp_path.iterdir():
            assert file.stat().st_blocks * 512 >= 1000 * 64 * 4

    def test_a_system_that_cannot_claim_space_does_without(self, encoder, cache, monkeypatch):
        monkeypatch.delattr(os, "posix_fallocate")
        assert len(represent(encoder, SENTENCES, cache=cache)["last"]) == WORDS

    @pytest.mark.parametrize("mode", [0o555, 0o000], ids=["read-only", "closed"])
    def test_a_folder_that_may_not_be_written_is_a_storage_error(self, encoder, mode):
        encoder.fingerprint, encoder.widths  # noqa: B018 (before the rights of this process are given up)
        with tempfile.TemporaryDirectory(dir="/tmp") as place:  # others may enter it
            Path(place).chmod(0o755)
            cache = Path(place) / "cache"
            cache.mkdir(mode=0o755)
            cache.chmod(mode)
            root = os.geteuid() == 0
            if root:
                os.seteuid(65534)
            try:
                with pytest.raises(StorageError, match=r"cannot write into .*Permission denied") as raised:
                    represent(encoder, SENTENCES, cache=cache)
            finally:
                if root:
                    os.seteuid(0)
                cache.chmod(0o755)
        assert "--cache" in raised.value.fix
