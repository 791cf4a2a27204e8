"""Files of activations against NeuroX 1.0.9 itself: its extractor, its writers and its loader.

NeuroX reads running text, counts the pieces of a word by tokenising it next to a letter, and runs
every sentence alone: it shares nothing with the code under test but transformers.
"""

from pathlib import Path

import numpy as np
import pytest
import tiny
from transformers import AutoTokenizer

from vestige.corpus.types import Sentence
from vestige.errors import RepresentationError
from vestige.models.files.load import load_model
from vestige.representations.extract import represent
from vestige.representations.interchange import export_activations, import_activations

_MISSING = "NeuroX is missing: pip install --no-deps neurox==1.0.9"
extractor = pytest.importorskip("neurox.data.extraction.transformers_extractor", reason=_MISSING)
loader = pytest.importorskip("neurox.data.loader", reason=_MISSING)

TEXTS = (
    "the lazy dog",
    tiny.TEXT[2],
    "Please",
    "the lazy dog",
    tiny.TEXT[1],
    "snow ☃ and café",
    "the \u200b dog",
    "\u200b dog \u00ad",
    "the lazy dog",
)
SENTENCES = [Sentence(f"s{n}", tuple(text.split(" "))) for n, text in enumerate(TEXTS)]
POOLINGS = {"last": "last", "first": "first", "mean": "average"}
"""Ours -> NeuroX's."""
FORMATS = ("hdf5", "json")

pytestmark = pytest.mark.filterwarnings("ignore:Creating a tensor from a list")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tiny.save("bert", tmp_path_factory.mktemp("neurox") / "bert")


@pytest.fixture(scope="module")
def encoder(folder):
    return load_model(folder)


@pytest.fixture(scope="module")
def extracted(folder):
    """`extracted("mean", "json")`: the file that NeuroX's extractor writes."""
    corpus = folder.parent / "corpus.txt"
    corpus.write_text("\n".join(TEXTS) + "\n")
    for pooling, aggregation in POOLINGS.items():
        for kind in FORMATS:
            extractor.extract_representations(
                str(folder), str(corpus), str(folder.parent / f"{pooling}.{kind}"), aggregation=aggregation,
                output_type=kind,
            )  # fmt: skip
    return lambda pooling, kind: folder.parent / f"{pooling}.{kind}"


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * max(1.0, float(np.abs(expected).max())))


def loaded_by_neurox(path: Path) -> np.ndarray:
    """All words that NeuroX loads, (layers, words, width), checked to be divided as the sentences are."""
    sentences, layers = loader.load_activations(str(path))
    assert [len(sentence) for sentence in sentences] == [len(sentence.words) for sentence in SENTENCES]
    words = np.concatenate(sentences)
    return words.reshape(len(words), layers, -1).swapaxes(0, 1)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("pooling", POOLINGS)
def test_what_neurox_extracted_comes_in_as_neurox_loads_it_and_as_we_compute_it(
    pooling, kind, extracted, encoder, cache
):
    path = extracted(pooling, kind)
    found = import_activations(path, SENTENCES, cache=cache)
    theirs = loaded_by_neurox(path)
    ours = represent(encoder, SENTENCES, (pooling,), cache=cache)[pooling]
    assert found.layers == len(theirs) == ours.layers == 4
    np.testing.assert_array_equal(found.index, ours.index)
    assert found.manifest["vanished_words"] == ours.manifest["vanished_words"] == 3
    for layer in range(4):
        np.testing.assert_array_equal(found.layer(layer), theirs[layer].astype(np.float32))
        assert_close(found.layer(layer), ours.layer(layer))


@pytest.mark.parametrize("kind", FORMATS)
def test_neurox_loads_what_we_export(kind, encoder, cache, tmp_path):
    ours = represent(encoder, SENTENCES, cache=cache)["last"]
    export_activations(ours, SENTENCES, tmp_path / f"ours.{kind}")
    theirs = loaded_by_neurox(tmp_path / f"ours.{kind}")
    assert len(theirs) == 4
    for layer in range(4):
        np.testing.assert_array_equal(theirs[layer].astype(np.float32), ours.layer(layer))


def test_the_three_poolings_of_neurox_differ(extracted):
    """Otherwise the agreement above would say little."""
    last, first, mean = (loaded_by_neurox(extracted(pooling, "hdf5")) for pooling in ("last", "first", "mean"))
    assert np.abs(last - first).max() > 0.1
    assert np.abs(last - mean).max() > 0.1


@pytest.mark.parametrize("family", ["albert", "xlnet"])
def test_other_families_agree_as_well(family, tmp_path, cache):
    """NeuroX shows a model no segment ids (XLNet has one of its own for <cls>), so here we show it none either."""
    model = tiny.save(family, tmp_path / family)
    (tmp_path / "corpus.txt").write_text("\n".join(TEXTS[:5]) + "\n")
    path = tmp_path / "theirs.hdf5"
    extractor.extract_representations(str(model), str(tmp_path / "corpus.txt"), str(path), output_type="hdf5")
    found = import_activations(path, SENTENCES[:5], cache=cache)
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    ours = represent(load_model(model, tokenizer=tokenizer), SENTENCES[:5], cache=cache)["last"]
    for layer in range(4):
        assert_close(found.layer(layer), ours.layer(layer))


def test_a_sentence_that_neurox_cut_at_the_limit_is_refused(folder, tmp_path, cache):
    long = Sentence("long", tuple(" ".join(tiny.TEXT).split()), source="long.txt:1")
    (tmp_path / "corpus.txt").write_text(" ".join(long.words) + "\n")
    AutoTokenizer.from_pretrained(folder, model_max_length=64).save_pretrained(tmp_path / "limited")
    path = tmp_path / "cut.hdf5"
    extractor.extract_representations(
        f"{folder},{tmp_path / 'limited'}", str(tmp_path / "corpus.txt"), str(path), output_type="hdf5"
    )
    with pytest.raises(RepresentationError, match=rf"\d+ vectors, .*long\.txt:1.* has {len(long.words)} words"):
        import_activations(path, [long], cache=cache)
