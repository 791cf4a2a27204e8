"""Activations as tensors by name: files and caches become the vectors of words, or are refused with what to do."""

import zipfile

import numpy as np
import pytest
import tiny
import torch
from safetensors.torch import save_file

from vestige.corpus.types import Sentence
from vestige.errors import RepresentationError
from vestige.representations.extract import represent
from vestige.representations.interchange import import_activations
from vestige.representations.named_tensors import layer_names

SENTENCES = [Sentence(f"s{n}", tuple(text.split())) for n, text in enumerate(("the lazy dog", "remember", "the fox"))]
WORDS = sum(len(sentence.words) for sentence in SENTENCES)


def words(layers: int = 3, width: int = 5) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {f"layer_{n}": rng.normal(size=(WORDS, width)).astype(np.float32) for n in range(layers)}


@pytest.fixture(scope="module")
def read():
    """A tiny model's hidden states of every token, and which word each is of, as Hugging Face has them."""
    model, tokenizer = tiny.model("bert").eval(), tiny.tokenizer("bert")
    encoded = tokenizer([list(s.words) for s in SENTENCES], is_split_into_words=True, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = model(**encoded, output_hidden_states=True).hidden_states
    return states, [encoded.word_ids(n) for n in range(len(SENTENCES))]


@pytest.mark.parametrize("kind", ["npz", "safetensors", "memory"])
def test_a_row_for_every_word(tmp_path, cache, kind):
    tensors = words()
    source = tensors if kind == "memory" else tmp_path / f"mine.{kind}"
    if kind == "npz":
        np.savez(source, **tensors)
    elif kind == "safetensors":
        save_file({name: torch.from_numpy(one) for name, one in tensors.items()}, source)
    found = import_activations(source, SENTENCES, cache=cache)
    assert found.manifest["model"] == ("cache" if kind == "memory" else "mine") and found.layers == 3
    for number, one in enumerate(tensors.values()):
        np.testing.assert_array_equal(found.layer(number), one)
    assert found.index.tolist() == [[n, w] for n, s in enumerate(SENTENCES) for w in range(len(s.words))]


@pytest.mark.parametrize("pooling", ["first", "last", "mean", "max"])
def test_tokens_are_pooled_as_we_pool_our_own(read, tiny_encoder, cache, pooling):
    states, ids = read
    tensors = {"embeddings": states[0]} | {f"encoder.layer.{n}.output": one for n, one in enumerate(states[1:])}
    found = import_activations(tensors, SENTENCES, cache=cache, word_ids=ids, pooling=pooling)
    own = represent(tiny_encoder("bert"), SENTENCES, (pooling,), cache=cache)[pooling]
    assert found.layers == own.layers == 4
    for layer in range(4):
        np.testing.assert_allclose(found.layer(layer), own.layer(layer), atol=1e-5)


def test_word_ids_may_be_in_the_file(read, tmp_path, cache):
    states, ids = read
    rows = np.array([[-1 if one is None else one for one in row] for row in ids])
    np.savez(tmp_path / "a.npz", word_ids=rows, **{f"{n}": one.numpy() for n, one in enumerate(states)})
    found = import_activations(tmp_path / "a.npz", SENTENCES, cache=cache)
    told = import_activations({f"{n}": one for n, one in enumerate(states)}, SENTENCES, cache=cache, word_ids=ids)
    np.testing.assert_array_equal(found.layer(2), told.layer(2))


def test_half_precision_is_read(tmp_path, cache):
    save_file({"layer_0": torch.ones(WORDS, 4, dtype=torch.bfloat16)}, tmp_path / "a.safetensors")
    assert import_activations(tmp_path / "a.safetensors", SENTENCES, cache=cache).layer(0).all()


def test_one_sentence_without_a_batch(read, cache):
    states, ids = read
    single = {f"layer_{n}": one[1] for n, one in enumerate(states)}
    assert len(import_activations(single, SENTENCES[1:2], cache=cache, word_ids=ids[1])) == 1


def test_what_differs_is_kept_apart(read, cache):
    states, ids = read
    tensors = {f"layer_{n}": one for n, one in enumerate(states)}
    folders = {
        import_activations(tensors, SENTENCES, cache=cache, word_ids=ids, **more).folder
        for more in ({}, {"pooling": "first"}, {"layers": ["layer_1"]}, {"layers": ["layer_2"]})
    }
    assert len(folders) == 4
    assert import_activations(dict(tensors), SENTENCES, cache=cache, word_ids=ids).folder in folders


@pytest.mark.parametrize(
    ("names", "layers"),
    [
        (["blocks.1.hook_resid_post", "blocks.0.hook_resid_post", "blocks.0.hook_resid_pre", "blocks.0.hook_mlp_out"],
         [("blocks.0.hook_resid_pre",), ("blocks.0.hook_resid_post",), ("blocks.1.hook_resid_post",)]),
        (["hook_embed", "hook_pos_embed", "blocks.0.hook_resid_post"],
         [("hook_embed", "hook_pos_embed"), ("blocks.0.hook_resid_post",)]),
        (["hook_embed", "blocks.0.hook_resid_post"], [("hook_embed",), ("blocks.0.hook_resid_post",)]),
        (["blocks.0.hook_in", "blocks.0.hook_out"], [("blocks.0.hook_in",), ("blocks.0.hook_out",)]),
        (["transformer.h.0.output.0", "transformer.h.1.output.0", "transformer.wte.output"],
         [("transformer.wte.output",), ("transformer.h.0.output.0",), ("transformer.h.1.output.0",)]),
        (["model.layers.0", "model.layers.1"], [("model.layers.0",), ("model.layers.1",)]),
        (["layer_10", "layer_9", "word_ids"], [("layer_9",), ("layer_10",)]),
        (["0", "1", "2"], [("0",), ("1",), ("2",)]),
    ],
)  # fmt: skip
def test_layers_are_known_by_their_names(names, layers):
    assert layer_names(names, "x") == layers


def test_token_and_position_embeddings_are_added(cache):
    tensors = {"hook_embed": np.ones((WORDS, 2)), "hook_pos_embed": np.full((WORDS, 2), 2.0)}
    tensors["blocks.0.hook_resid_post"] = np.ones((WORDS, 2))
    assert (import_activations(tensors, SENTENCES, cache=cache).layer(0) == 3).all()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: {"a": t["layer_0"], "b": t["layer_1"]}, "no name that says which layer it is, among a, b"),
        (lambda t: {"layer_0": t["layer_0"], "layer_2": t["layer_2"]}, "layers 0, 2 are there"),
        (lambda t: {"layer_0": t["layer_0"][:-1]}, r"expected a row for each of the 6 words.*found \(5, 5\)"),
        (lambda t: {"layer_0": t["layer_0"][0]}, r"'layer_0': expected numbers of shape"),
        (lambda t: {"layer_0": t["layer_0"].astype(str)}, r"expected numbers of shape"),
        (lambda t: {"layer_0": np.where(t["layer_0"] > 0, np.nan, 1)}, "NaN or infinite activations"),
        (lambda t: {"layer_0": np.zeros((3, 4, 5))}, "(?s)found .3, 4, 5.*word_ids="),
    ],
)
def test_tensors_that_do_not_fit_are_refused(cache, change, says):
    with pytest.raises(RepresentationError, match=says):
        import_activations(change(words()), SENTENCES, cache=cache)
    assert not [*cache.rglob("manifest.json")]


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        ([[0, 1, 2, None], [0], [0, 1]], None),
        ([[0, 1, 1, None], [0], [0, 1]], "sentence 0: no token of word 2"),
        ([[0, 1, 2, 3], [0], [0, 1]], "sentence 0: word_ids of 4 positions up to word 3"),
        ([[0, 1, 2, None, None], [0], [0, 1]], "sentence 0: word_ids of 5 positions"),
        ([[0, 2, 1, None], [0], [0, 1]], "sentence 0: word_ids are not in order"),
        ([[0, 1, 2, None], [0]], "3 sentences of tensors and 2 of word_ids for 3 sentences"),
        ([["a"], [0], [0, 1]], "word_ids are whole numbers"),
    ],
)
def test_word_ids_that_do_not_fit_are_refused(cache, ids, says):
    tensors = {"layer_0": np.ones((3, 4, 5))}
    if says is None:
        assert len(import_activations(tensors, SENTENCES, cache=cache, word_ids=ids)) == WORDS
        return
    with pytest.raises(RepresentationError, match=says):
        import_activations(tensors, SENTENCES, cache=cache, word_ids=ids)


def test_files_that_are_none_are_refused(tmp_path, cache):
    for name in ("a.npz", "a.safetensors"):
        (tmp_path / name).write_bytes(b"no such thing")
        with pytest.raises(RepresentationError, match=rf"{name}: cannot be read as"):
            import_activations(tmp_path / name, SENTENCES, cache=cache)
    np.savez(tmp_path / "b.npz", layer_0=np.array([object()], dtype=object))
    with pytest.raises(RepresentationError, match=r"b\.npz: cannot be read as .npz"):
        import_activations(tmp_path / "b.npz", SENTENCES, cache=cache)
    with zipfile.ZipFile(tmp_path / "c.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("layer_0.npy", bytes(80 * 2**20))
    with pytest.raises(RepresentationError, match="unpacks to more than"):
        import_activations(tmp_path / "c.npz", SENTENCES, cache=cache)


def test_what_says_nothing_here_is_refused(tmp_path, cache):
    (tmp_path / "a.json").write_text("")
    with pytest.raises(RepresentationError, match="this format says itself"):
        import_activations(tmp_path / "a.json", SENTENCES, cache=cache, word_ids=[[0]])
    with pytest.raises(RepresentationError, match="activations of a list cannot be imported"):
        import_activations([1], SENTENCES, cache=cache)
    with pytest.raises(RepresentationError, match=r"(?s)no tensor 'top'.*layer_0"):
        import_activations(words(), SENTENCES, cache=cache, layers=["top"])
    with pytest.raises(RepresentationError, match="no pooling 'sum'"):
        import_activations({"layer_0": np.ones((3, 4, 5))}, SENTENCES, cache=cache, word_ids=[[0]], pooling="sum")
