"""Transformer-ELMo: the blocks against torch's own, the two ways of looking, archives good and bad."""

import io
import json
import os
import tarfile
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch

from vestige.corpus.types import Sentence
from vestige.errors import CorpusError, ModelError
from vestige.models.encoders.telmo import is_telmo, load_telmo

CONFIG = {
    "dataset_reader": {
        "type": "simple_language_modeling",
        "start_tokens": ["<S>"],
        "end_tokens": ["</S>"],
        "token_indexers": {"chars": {"type": "elmo_characters"}, "tokens": {"type": "single_id"}},
    },
    "model": {
        "type": "language_model",
        "bidirectional": True,
        "text_field_embedder": {
            "token_embedders": {
                "chars": {
                    "type": "character_encoding",
                    "embedding": {"embedding_dim": 5, "num_embeddings": 262},
                    "encoder": {
                        "type": "cnn-highway", "activation": "relu", "embedding_dim": 5, "num_highway": 2,
                        "filters": [[1, 4], [2, 6], [3, 10]], "projection_dim": 16,
                        "projection_location": "after_highway", "do_layer_norm": True,
                    },
                }
            }
        },
        "contextualizer": {
            "type": "bidirectional_language_model_transformer",
            "input_dim": 16, "hidden_dim": 24, "num_layers": 3, "dropout": 0.1, "input_dropout": 0.1,
        },
    },
}  # fmt: skip
ENCODER = "model__text_field_embedder__token_embedders__chars__encoder"
TEXTS = (["the", "red", "boat", "left"], ["rain"], ["nobody", "saw", "it", ",", "they", "say", ",", "again"])
WIDTH = 16


def config(**changes) -> dict:
    """CONFIG with changes like `model__bidirectional=False`; None takes the option away."""
    made = deepcopy(CONFIG)
    for name, value in changes.items():
        *parts, last = name.split("__")
        section = made
        for part in parts:
            section = section[part]
        section.pop(last) if value is None else section.update({last: value})
    return made


def weights(of: dict, seed: int = 0) -> dict[str, torch.Tensor]:
    """Random tensors under AllenNLP's names, those of the loss included."""
    encoder = of["model"]["text_field_embedder"]["token_embedders"]["chars"]["encoder"]
    model = of["model"]["contextualizer"]
    word, cnn = "_text_field_embedder.token_embedder_chars", "._encoder._module"
    filters = sum(number for _, number in encoder["filters"])
    wide = encoder["projection_dim"] if encoder.get("projection_location") == "after_cnn" else filters
    shapes = {f"{word}._embedding._module.weight": (262, 5)}
    shapes |= {f"{word}{cnn}._projection.weight": (WIDTH, filters), f"{word}{cnn}._projection.bias": (WIDTH,)}
    if encoder.get("do_layer_norm"):
        shapes |= {f"{word}{cnn}._layer_norm.gamma": (WIDTH,), f"{word}{cnn}._layer_norm.beta": (WIDTH,)}
    for i, (size, number) in enumerate(encoder["filters"]):
        shapes |= {f"{word}{cnn}.char_conv_{i}.weight": (number, 5, size), f"{word}{cnn}.char_conv_{i}.bias": (number,)}
    for i in range(encoder["num_highway"]):
        place = f"{word}{cnn}._highways._layers.{i}"
        shapes |= {f"{place}.weight": (2 * wide, wide), f"{place}.bias": (2 * wide,)}
    for side in ("forward", "backward"):
        stack = f"_contextualizer._{side}_transformer"
        norms = [f"{stack}.norm"]
        for layer in range(model["num_layers"]):
            place = f"{stack}.layers.{layer}"
            linears = {f"{place}.self_attn.linears.{i}": (WIDTH, WIDTH) for i in range(4)}
            linears |= {f"{place}.feed_forward.w_1": (24, WIDTH), f"{place}.feed_forward.w_2": (WIDTH, 24)}
            for name, shape in linears.items():
                shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
            norms += [f"{place}.sublayer.{i}.norm" for i in range(2)]
        shapes |= {f"{norm}.{part}": (WIDTH,) for norm in norms for part in ("gamma", "beta")}
    generator = torch.Generator().manual_seed(seed)
    made = {name: torch.randn(shape, generator=generator) * 0.4 for name, shape in shapes.items()}
    angle = torch.arange(5000)[:, None] / 10000 ** (torch.arange(0, WIDTH, 2) / WIDTH)
    table = torch.zeros(1, 5000, WIDTH)
    table[0, :, 0::2], table[0, :, 1::2] = angle.sin(), angle.cos()
    made["_contextualizer._position.positional_encoding"] = table
    loss = {"_softmax_loss.softmax_w.weight": torch.ones(9, WIDTH), "_last_average_loss": torch.zeros(1)}
    return made | loss


def save(folder: Path, of: dict = CONFIG, tensors: object = None) -> Path:
    """An unpacked archive."""
    (folder / "vocabulary").mkdir(parents=True, exist_ok=True)
    (folder / "vocabulary" / "tokens.txt").write_text("@@UNKNOWN@@\n")
    (folder / "config.json").write_text(json.dumps(of))
    torch.save(weights(of) if tensors is None else tensors, folder / "weights.th")
    return folder


def pack(folder: Path, archive: Path, prefix: str = "") -> Path:
    with tarfile.open(archive, "w:gz") as tar:
        for name in ("config.json", "vocabulary", "weights.th"):
            tar.add(folder / name, prefix + name)
    return archive


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save(tmp_path / "telmo")


@pytest.fixture
def encoder(folder: Path):
    return load_telmo(folder)


@pytest.fixture(params=["own", "published"])
def either(request, folder):
    """The model of these tests and AllenNLP's small one."""
    if request.param == "own":
        return load_telmo(folder)
    return load_telmo(request.getfixturevalue("data") / "telmo_fixture" / "model.tar.gz")


def states(encoder, texts=TEXTS) -> list[np.ndarray]:
    """Layers of every sentence, (layers, words, width), from one batch."""
    encoded = encoder.encode([Sentence(str(number), tuple(words)) for number, words in enumerate(texts)])
    layers = torch.stack(encoder.hidden_states(encoded))
    return [layers[:, row, : len(one.ids)].numpy() for row, one in enumerate(encoded)]


def close(found, expected) -> bool:
    return all(np.allclose(a, b, atol=1e-5) for a, b in zip(found, expected, strict=True))


def normed(x: torch.Tensor, tensors: dict, name: str) -> torch.Tensor:
    deviation = ((x - x.mean()) ** 2).mean().sqrt()
    return (x - x.mean()) / (deviation + 1e-6) * tensors[f"{name}.gamma"] + tensors[f"{name}.beta"]


def token(of: dict, tensors: dict, characters: list[int]) -> torch.Tensor:
    """One word's vector, in the terms of the archive."""
    encoder = of["model"]["text_field_embedder"]["token_embedders"]["chars"]["encoder"]
    place = "_text_field_embedder.token_embedder_chars"
    part = f"{place}._encoder._module"
    ids = torch.tensor([259, *characters, 260] + [261] * (48 - len(characters)))
    letters = tensors[f"{place}._embedding._module.weight"][ids]
    pooled = []
    for i, (size, _) in enumerate(encoder["filters"]):
        kernel, bias = tensors[f"{part}.char_conv_{i}.weight"], tensors[f"{part}.char_conv_{i}.bias"]
        at = [torch.einsum("wd,ndw->n", letters[s : s + size], kernel) + bias for s in range(51 - size)]
        pooled.append(getattr(torch, encoder["activation"])(torch.stack(at).amax(0)))
    x = torch.cat(pooled)
    projection = tensors[f"{part}._projection.weight"], tensors[f"{part}._projection.bias"]
    if encoder["projection_location"] == "after_cnn":
        x = projection[0] @ x + projection[1]
    for i in range(encoder["num_highway"]):
        both = tensors[f"{part}._highways._layers.{i}.weight"] @ x + tensors[f"{part}._highways._layers.{i}.bias"]
        change, gate = both[: len(x)].relu(), both[len(x) :].sigmoid()
        x = gate * x + (1 - gate) * change
    if encoder["projection_location"] == "after_highway":
        x = projection[0] @ x + projection[1]
    return normed(x, tensors, f"{part}._layer_norm") if encoder["do_layer_norm"] else x


def torchs_stack(tensors: dict, side: str, layers: int) -> tuple[list[torch.nn.Module], torch.nn.Module]:
    """The blocks of one direction and the last norm as modules of torch."""
    stack = f"_contextualizer._{side}_transformer"
    blocks = []
    for number in range(layers):
        theirs = f"{stack}.layers.{number}"
        linears = [
            (tensors[f"{theirs}.self_attn.linears.{i}.weight"], tensors[f"{theirs}.self_attn.linears.{i}.bias"])
            for i in range(4)
        ]
        block = torch.nn.TransformerEncoderLayer(
            WIDTH, 8, 24, dropout=0, norm_first=True, batch_first=True, layer_norm_eps=0
        )
        state = {
            "self_attn.in_proj_weight": torch.cat([weight for weight, _ in linears[:3]]),
            "self_attn.in_proj_bias": torch.cat([bias for _, bias in linears[:3]]),
            "self_attn.out_proj.weight": linears[3][0],
            "self_attn.out_proj.bias": linears[3][1],
        }
        for i in (1, 2):
            state[f"linear{i}.weight"] = tensors[f"{theirs}.feed_forward.w_{i}.weight"]
            state[f"linear{i}.bias"] = tensors[f"{theirs}.feed_forward.w_{i}.bias"]
            state[f"norm{i}.weight"] = tensors[f"{theirs}.sublayer.{i - 1}.norm.gamma"]
            state[f"norm{i}.bias"] = tensors[f"{theirs}.sublayer.{i - 1}.norm.beta"]
        block.load_state_dict(state)
        blocks.append(block.eval())
    norm = torch.nn.LayerNorm(WIDTH, eps=0)
    norm.load_state_dict({"weight": tensors[f"{stack}.norm.gamma"], "bias": tensors[f"{stack}.norm.beta"]})
    return blocks, norm


@torch.inference_mode()
def reference(of: dict, tensors: dict, words: list[str]) -> np.ndarray:
    """All layers of one sentence from torch's transformer blocks."""
    tokens = [[257], *([byte + 1 for byte in word.encode()] for word in words), [258]]
    x = torch.stack([token(of, tensors, characters) for characters in tokens])
    placed = (x + tensors["_contextualizer._position.positional_encoding"][0, : len(x)])[None]
    hidden = torch.triu(torch.ones(len(x), len(x), dtype=torch.bool), 1)
    halves = []
    depth = of["model"]["contextualizer"]["num_layers"]
    for side, mask in (("forward", hidden), ("backward", hidden.T)):
        blocks, norm = torchs_stack(tensors, side, depth)
        state, half = placed, [x]
        for block in blocks:
            state = block(state, src_mask=mask)
            half.append(state[0])
        halves.append([*half[:-1], norm(half[-1])])
    return torch.stack([torch.cat(pair, -1) for pair in zip(*halves, strict=True)])[:, 1:-1].numpy()


class TestArithmetic:
    @pytest.mark.parametrize(
        "changes",
        [
            {},
            {f"{ENCODER}__projection_location": "after_cnn", f"{ENCODER}__do_layer_norm": False},
            {f"{ENCODER}__activation": "tanh", "model__contextualizer__num_layers": 1},
        ],
        ids=["as the large model", "projected first, not normed", "tanh, one block"],
    )
    def test_every_layer_equals_the_one_of_torchs_blocks(self, tmp_path, changes):
        of = config(**changes)
        found = states(load_telmo(save(tmp_path, of)))
        assert close(found, [reference(of, weights(of), words) for words in TEXTS])

    def test_two_runs_are_equal_and_finite(self, either):
        first, second = states(either), states(either)
        assert all(np.array_equal(a, b) and np.isfinite(a).all() for a, b in zip(first, second, strict=True))

    def test_a_padded_batch_gives_what_each_sentence_alone_gives(self, either):
        alone = [states(either, [words])[0] for words in TEXTS]
        assert close(states(either), alone)
        assert close(states(either, TEXTS[::-1]), alone[::-1])

    def test_padding_is_zero(self, encoder):
        encoded = encoder.encode([Sentence(str(number), tuple(words)) for number, words in enumerate(TEXTS)])
        for layer in encoder.hidden_states(encoded):
            assert layer.shape == (3, 8, 32)
            assert not layer[1, 1:].any()

    def test_layer_0_is_doubled_and_knows_neither_context_nor_position(self, either):
        (one,) = states(either, [["tide", "by", "tide"]])
        assert np.array_equal(one[0, :, :WIDTH], one[0, :, WIDTH:])
        assert np.allclose(one[0, 0], one[0, 2])
        assert not np.allclose(one[1, 0], one[1, 2], atol=1e-3)

    def test_the_forward_half_does_not_see_later_words(self, either):
        one, other = states(either, (["the", "red", "boat", "left"], ["the", "red", "boat", "returned"]))
        assert np.allclose(one[1:, :3, :WIDTH], other[1:, :3, :WIDTH], atol=1e-6)
        assert (np.abs(one[1:, :3, WIDTH:] - other[1:, :3, WIDTH:]).max(-1) > 1e-5).all()

    def test_the_backward_half_does_not_see_earlier_words(self, either):
        one, other = states(either, (["the", "red", "boat", "left"], ["no", "red", "boat", "left"]))
        assert np.allclose(one[1:, 1:, WIDTH:], other[1:, 1:, WIDTH:], atol=1e-6)
        assert (np.abs(one[1:, 1:, :WIDTH] - other[1:, 1:, :WIDTH]).max(-1) > 1e-5).all()


class TestLoading:
    def test_archive_folder_and_a_folder_with_the_archive_are_the_same(self, folder, tmp_path):
        base = load_telmo(folder).fingerprint
        (tmp_path / "holder").mkdir()
        archive = pack(folder, tmp_path / "holder" / "model.tar.gz")
        dotted = pack(folder, tmp_path / "dotted.tgz", prefix="./")
        for place in (archive, dotted, tmp_path / "holder"):
            assert is_telmo(place)
            assert load_telmo(place).fingerprint == base

    def test_what_is_known_of_a_model(self, folder):
        encoder = load_telmo(folder, name="mine")
        assert (encoder.widths, encoder.depth, encoder.limit, encoder.sequential) == ((32,) * 4, 3, 5000, False)
        assert json.loads(json.dumps(encoder.describe())) == {
            "name": "mine", "fingerprint": encoder.fingerprint, "type": "telmo", "layers": 4, "widths": [32] * 4,
            "limit": 5000, "commit": None, "stateful": False,
        }  # fmt: skip
        assert load_telmo(folder).name == str(folder)
        (one,) = encoder.encode([Sentence("s", ("a", "b"), ("c",))])
        assert (one.word_of, encoder.summary_position(one)) == ((0, 1, 2), 2)

    def test_the_published_model(self, data):
        encoder = load_telmo(data / "telmo_fixture" / "model.tar.gz")
        assert encoder.widths == (32, 32, 32, 32)
        assert encoder.markers == ("<S>", "</S>")

    def test_what_is_taken_for_a_transformer_elmo(self, folder, tmp_path):
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "config.json").write_text("{}")
        (tmp_path / "other" / "model.tar.gz").touch()
        assert is_telmo(folder)
        assert not is_telmo(tmp_path / "other")
        assert not is_telmo(folder / "config.json")
        assert not is_telmo(tmp_path / "nowhere.tar.gz")
        (folder / "weights.th").unlink()
        assert is_telmo(folder)

    def test_the_loss_has_no_part_in_the_fingerprint_and_the_rest_has(self, folder, tmp_path):
        base = load_telmo(folder).fingerprint
        tensors = weights(CONFIG)
        tensors["_softmax_loss.softmax_w.weight"] += 1
        assert load_telmo(save(tmp_path / "loss", tensors=tensors)).fingerprint == base
        tensors["_contextualizer._backward_transformer.norm.beta"] += 1
        assert load_telmo(save(tmp_path / "norm", tensors=tensors)).fingerprint != base
        tanh = config(**{f"{ENCODER}__activation": "tanh"})
        assert load_telmo(save(tmp_path / "tanh", tanh)).fingerprint != base

    def test_the_random_twin_has_the_shape_but_not_the_weights(self, folder):
        encoder = load_telmo(folder, name="telmo")
        before = torch.get_rng_state()
        twin = encoder.random_twin(seed=3)
        assert torch.equal(torch.get_rng_state(), before)
        assert (twin.name, twin.widths) == ("telmo (random twin)", encoder.widths)
        assert twin.fingerprint == encoder.random_twin(seed=3).fingerprint
        assert len({twin.fingerprint, encoder.fingerprint, encoder.random_twin(seed=4).fingerprint}) == 3
        assert torch.allclose(twin.network.positions, encoder.network.positions, atol=1e-3)
        assert not close(states(twin), states(encoder))

    def test_settings_of_the_reader_decide_how_words_are_spelled(self, tmp_path):
        reader = deepcopy(CONFIG["dataset_reader"])
        reader |= {"start_tokens": ["["], "end_tokens": ["]"]}
        reader["token_indexers"]["chars"]["tokens_to_add"] = {"@@num@@": 7}
        encoder = load_telmo(
            save(tmp_path / "a", config(dataset_reader={"type": "multiprocess", "base_reader": reader}))
        )
        assert encoder.encode([Sentence("s", ("@@num@@", "]"))])[0].ids == ((259, 8, 260), (259, ord("]") + 1, 260))
        plain = load_telmo(save(tmp_path / "b"))
        bracketed, marked = (states(one, [["rain"]])[0] for one in (encoder, plain))
        assert np.allclose(bracketed[0], marked[0])
        assert not np.allclose(bracketed[1], marked[1], atol=1e-3)
        assert encoder.fingerprint != plain.fingerprint

    def test_a_sentence_past_the_last_position_is_cut_or_refused(self, encoder):
        long = Sentence("s", ("word",) * 5001)
        (one,) = encoder.encode([long])
        assert (len(one.ids), one.words, one.kept) == (4998, 5001, 4998)
        with pytest.raises(CorpusError, match="sentence s: 5001 words and 2 markers, but the model takes 5000"):
            encoder.encode([long], on_overflow="error")

    def test_an_empty_word_is_refused(self, encoder):
        with pytest.raises(ModelError, match="word 1, '', has no characters"):
            encoder.encode([Sentence("s", ("",))])


class TestBadFiles:
    @pytest.mark.parametrize("share", [0, 0.02, 0.5, 0.99])
    def test_a_cut_off_archive(self, folder, tmp_path, share):
        archive = pack(folder, tmp_path / "model.tar.gz")
        content = archive.read_bytes()
        archive.write_bytes(content[: int(share * len(content))])
        with pytest.raises(ModelError, match=r"model.tar.gz: not a whole .tar.gz archive"):
            load_telmo(archive)

    def test_a_file_that_is_no_archive(self, tmp_path):
        (tmp_path / "model.tar.gz").write_text("<html>not found</html>" * 100)
        with pytest.raises(ModelError, match=r"model.tar.gz: not a whole .tar.gz archive"):
            load_telmo(tmp_path / "model.tar.gz")

    @pytest.mark.parametrize("missing", ["config.json", "weights.th"])
    def test_a_missing_file(self, folder, tmp_path, missing):
        archive = tmp_path / "model.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            for name in {"config.json", "weights.th"} - {missing}:
                tar.add(folder / name, name)
        with pytest.raises(ModelError, match=f"no {missing} in the archive"):
            load_telmo(archive)
        (folder / missing).unlink()
        with pytest.raises(ModelError, match=f"telmo: no {missing}"):
            load_telmo(folder)

    def test_no_such_file(self, tmp_path):
        with pytest.raises(ModelError, match="no such file or folder"):
            load_telmo(tmp_path / "model.tar.gz")

    def test_links_and_paths_that_lead_out_of_the_archive_are_not_followed(self, folder, tmp_path):
        archive = tmp_path / "deep" / "model.tar.gz"
        archive.parent.mkdir()
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(folder / "weights.th", "../outside/weights.th")
            link = tarfile.TarInfo("config.json")
            link.type, link.linkname = tarfile.SYMTYPE, str(folder / "config.json")
            tar.addfile(link)
        with pytest.raises(ModelError, match=r"no config.json in the archive"):
            load_telmo(archive)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "telmo"]
        assert [path.name for path in archive.parent.iterdir()] == ["model.tar.gz"]

    def test_a_pickle_that_runs_code_is_not_run(self, folder, tmp_path):
        class Trap:
            def __reduce__(self):
                return os.mkdir, (str(tmp_path / "sprung"),)

        torch.save({"weight": Trap()}, folder / "weights.th")
        with pytest.raises(ModelError, match=r"weights.th: not a dictionary of tensors"):
            load_telmo(folder)
        assert not (tmp_path / "sprung").exists()

    @pytest.mark.parametrize("stored", [[1, 2], {"_contextualizer": 3}, torch.ones(2)])
    def test_weights_that_are_not_a_dictionary_of_tensors(self, folder, stored):
        torch.save(stored, folder / "weights.th")
        with pytest.raises(ModelError, match=r"weights.th: not a dictionary of tensors"):
            load_telmo(folder)

    def test_cut_off_weights(self, folder):
        content = io.BytesIO((folder / "weights.th").read_bytes()).read(5000)
        (folder / "weights.th").write_bytes(content)
        with pytest.raises(ModelError, match=r"weights.th: not a dictionary of tensors"):
            load_telmo(folder)

    def test_a_missing_an_unknown_and_an_infinite_tensor(self, folder):
        name = "_contextualizer._forward_transformer.norm.gamma"
        for change, message in (
            (lambda tensors: tensors.pop(name), f"no {name}"),
            (
                lambda tensors: tensors.update({"_contextualizer.extra": torch.ones(1)}),
                r"holds _contextualizer.extra, which",
            ),
            (lambda tensors: tensors.update({"_head.weight": torch.ones(1)}), r"holds _head.weight, which"),
            (lambda tensors: tensors.update({name: torch.full((WIDTH,), torch.inf)}), f"{name} holds NaN or infinite"),
        ):
            tensors = weights(CONFIG)
            change(tensors)
            torch.save(tensors, folder / "weights.th")
            with pytest.raises(ModelError, match=message):
                load_telmo(folder)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (
                {"model__contextualizer__hidden_dim": 32},
                r"w_1.weight has shape \(24, 16\), but .*config.json asks for \(32, 16\) .*hidden_dim = 32",
            ),
            ({"model__contextualizer__num_layers": 4}, r"no .*layers.3.* asks for \(.*num_layers = 4"),
            ({"model__contextualizer__num_layers": 2}, r"holds .*layers.2.* does not ask for \(.*num_layers = 2"),
            ({"model__contextualizer__input_dim": 24}, "encoder.projection_dim is 16, but model.contextualizer.input_dim is 24"),
            ({f"{ENCODER}__embedding_dim": 4}, "encoder.embedding_dim is 4, but .*embedding.embedding_dim is 5"),
            ({f"{ENCODER}__do_layer_norm": None}, r"holds .*_layer_norm.* \(.*do_layer_norm = \(none\)"),
            (
                {f"{ENCODER}__filters": [[1, 4], [2, 7], [3, 10]]},
                r"char_conv_1.weight has shape \(6, 5, 2\), .* \(7, 5, 2\) .*filters",
            ),
            ({f"{ENCODER}__filters": [[51, 4]]}, "filters of width 51, but words have 50 characters"),
            ({f"{ENCODER}__projection_location": "after_cnn"}, r"_highways.* has shape .*projection_location = after_cnn"),
            ({f"{ENCODER}__projection_location": "nowhere"}, "projection_location is 'nowhere'"),
            ({f"{ENCODER}__type": "lstm"}, "encoder.type is 'lstm', .* only 'cnn-highway'"),
            ({"model__bidirectional": False}, "model.bidirectional is False, .* only True"),
            ({"model__bidirectional": None}, "model.bidirectional is False, .* only True"),
            ({"model__type": "crf_tagger"}, "model.type is 'crf_tagger'"),
            ({"model__contextualizer__type": "lstm"}, "contextualizer.type is 'lstm'"),
            ({"model__text_field_embedder__token_embedders__tokens": {}}, r"expected one embedder .* found \['chars', 'tokens'\]"),
            ({"dataset_reader__token_indexers__chars": {"type": "characters"}}, "type is 'characters', .* only 'elmo_characters'"),
            ({"dataset_reader__token_indexers__chars__tokens_to_add": {"x": 300}}, r"tokens_to_add .* found \{'x': 300\}"),
            ({"dataset_reader__start_tokens": ["<S>", "<S>"]}, "expected one start and one end token"),
            ({"model": None}, "no option model.type"),
        ],
    )  # fmt: skip
    def test_a_configuration_that_disagrees_with_the_weights(self, folder, changes, message):
        (folder / "config.json").write_text(json.dumps(config(**changes)))
        with pytest.raises(ModelError, match=message):
            load_telmo(folder)

    def test_a_width_that_the_heads_do_not_divide(self, folder):
        of = config(model__contextualizer__input_dim=12, **{f"{ENCODER}__projection_dim": 12})
        (folder / "config.json").write_text(json.dumps(of))
        with pytest.raises(ModelError, match="input_dim is 12, not a multiple of the 8 heads"):
            load_telmo(folder)

    def test_the_old_type_name_means_both_ways(self, tmp_path):
        of = config(model__type="bidirectional_language_model", model__bidirectional=None)
        assert load_telmo(save(tmp_path, of)).depth == 3
