"""ELMo: the arithmetic against one written out word by word, sentences apart or in streams, and bad files."""

import json
from copy import deepcopy
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from vestige.corpus.types import Sentence
from vestige.errors import CorpusError, ModelError
from vestige.models.encoders.characters import CnnSettings, Options, spell
from vestige.models.encoders.elmo import BiLM, ElmoSettings, ProjectedLSTM, is_elmo, load_elmo

OPTIONS = {
    "lstm": {
        "dim": 12, "projection_dim": 6, "n_layers": 3, "cell_clip": 0.6, "proj_clip": 0.2, "use_skip_connections": True,
    },
    "char_cnn": {
        "embedding": {"dim": 5}, "filters": [[1, 4], [2, 5], [4, 3]], "n_highway": 2, "activation": "relu",
        "n_characters": 262, "max_characters_per_token": 50,
    },
}  # fmt: skip
TEXTS = (
    ["a", "storm", "broke", "the", "oldest", "bridge"],
    ["rain"],
    ["ships", "wait", "outside", "the", "harbour", "until", "the", "tide", ",", "which", "is", "late", ",", "turns"],
    ["zwölf", "Brücken", "東京"],
)


def options(**changes) -> dict:
    """OPTIONS with changes like `lstm__dim=3`; None takes the option away."""
    made = deepcopy(OPTIONS)
    for name, value in changes.items():
        *parts, last = name.split("__")
        section = made
        for part in parts:
            section = section[part]
        section.pop(last) if value is None else section.update({last: value})
    return made


def weights(of: dict, seed: int = 0) -> dict[str, np.ndarray]:
    """Random tensors under the published names."""
    rng = np.random.default_rng(seed)
    cnn, lstm = of["char_cnn"], of["lstm"]
    dim, filters = cnn["embedding"]["dim"], sum(number for _, number in cnn["filters"])
    shapes = {"char_embed": (261, dim), "CNN_proj/W_proj": (filters, lstm["projection_dim"])}
    shapes["CNN_proj/b_proj"] = (lstm["projection_dim"],)
    for i, (width, number) in enumerate(cnn["filters"]):
        shapes[f"CNN/W_cnn_{i}"], shapes[f"CNN/b_cnn_{i}"] = (1, width, dim, number), (number,)
    for i in range(cnn["n_highway"]):
        for part in ("carry", "transform"):
            shapes[f"CNN_high_{i}/W_{part}"], shapes[f"CNN_high_{i}/b_{part}"] = (filters, filters), (filters,)
    for way in range(2):
        for layer in range(lstm["n_layers"]):
            cell = f"RNN_{way}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            shapes[f"{cell}/W_0"] = (2 * lstm["projection_dim"], 4 * lstm["dim"])
            shapes[f"{cell}/B"] = (4 * lstm["dim"],)
            shapes[f"{cell}/W_P_0"] = (lstm["dim"], lstm["projection_dim"])
    scales = {name: np.prod(shape[:-1]) ** -0.5 for name, shape in shapes.items()} | {"char_embed": 1}
    return {name: (rng.normal(size=shape) * scales[name]).astype(np.float32) for name, shape in shapes.items()}


def save(folder: Path, of: dict = OPTIONS, tensors: dict | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "options.json").write_text(json.dumps(of))
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, tensor in (weights(of) if tensors is None else tensors).items():
            file[name] = tensor
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save(tmp_path / "elmo")


def sentences(texts=TEXTS) -> list[Sentence]:
    return [Sentence(str(number), tuple(words)) for number, words in enumerate(texts)]


def states(encoder, texts=TEXTS) -> list[np.ndarray]:
    """Layers of every sentence, (layers, words, width), from one batch."""
    encoded = encoder.encode(sentences(texts))
    layers = torch.stack(encoder.hidden_states(encoded))
    return [layers[:, row, : len(one.ids)].numpy() for row, one in enumerate(encoded)]


def close(found, expected) -> bool:
    return all(np.allclose(a, b, atol=1e-5) for a, b in zip(found, expected, strict=True))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def by_hand(of: dict, tensors: dict, words: list[str]) -> np.ndarray:
    """All layers of one sentence, a word and a step at a time, in the terms of the published file."""
    cnn, lstm = of["char_cnn"], of["lstm"]
    act = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}[cnn["activation"]]
    length = cnn["max_characters_per_token"]

    def token(characters: list[int]) -> np.ndarray:
        ids = [258, *characters[: length - 2], 259]
        letters = tensors["char_embed"][ids + [260] * (length - len(ids))]
        pooled = []
        for i, (width, _) in enumerate(cnn["filters"]):
            kernel, bias = tensors[f"CNN/W_cnn_{i}"][0], tensors[f"CNN/b_cnn_{i}"]
            at = [np.einsum("wd,wdn->n", letters[s : s + width], kernel) + bias for s in range(length - width + 1)]
            pooled.append(act(np.max(at, axis=0)))
        x = np.concatenate(pooled)
        for i in range(cnn["n_highway"]):
            part = {
                name: tensors[f"CNN_high_{i}/{name}"] for name in ("W_carry", "b_carry", "W_transform", "b_transform")
            }
            gate = sigmoid(x @ part["W_carry"] + part["b_carry"])
            x = gate * np.maximum(x @ part["W_transform"] + part["b_transform"], 0) + (1 - gate) * x
        return x @ tensors["CNN_proj/W_proj"] + tensors["CNN_proj/b_proj"]

    tokens = [token([256]), *(token(list(word.encode())) for word in words), token([257])]
    layers = [np.array([np.concatenate([x, x]) for x in tokens])]
    inputs = [tokens, tokens[::-1]]
    clip = [lstm.get(name) or np.inf for name in ("cell_clip", "proj_clip")]
    for layer in range(lstm["n_layers"]):
        for way in range(2):
            part = {
                name: tensors[f"RNN_{way}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/{name}"]
                for name in ("W_0", "B", "W_P_0")
            }
            h, c, outputs = np.zeros(lstm["projection_dim"]), np.zeros(lstm["dim"]), []
            for x in inputs[way]:
                i, j, f, o = np.split(np.concatenate([x, h]) @ part["W_0"] + part["B"], 4)
                c = np.clip(sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j), -clip[0], clip[0])
                h = np.clip((sigmoid(o) * np.tanh(c)) @ part["W_P_0"], -clip[1], clip[1])
                outputs.append(h + x if layer and lstm["use_skip_connections"] else h)
            inputs[way] = outputs
        layers.append(np.concatenate([np.array(inputs[0]), np.array(inputs[1])[::-1]], axis=1))
    return np.array(layers)[:, 1:-1]


class TestSpelling:
    def test_a_word_is_its_bytes_between_marks_one_higher(self):
        assert spell("ab") == (259, 98, 99, 260)
        assert spell("é") == (259, 0xC3 + 1, 0xA9 + 1, 260)
        assert spell("<S>") == (259, 257, 260)
        assert spell("</S>") == (259, 258, 260)
        assert spell("<s>") == (259, *(byte + 1 for byte in b"<s>"), 260)

    def test_a_long_word_keeps_its_first_48_bytes_even_within_a_letter(self):
        assert spell("x" * 60) == spell("x" * 48) != spell("x" * 47)
        assert spell("x" * 47 + "é") == (259, *[121] * 47, 0xC3 + 1, 260)
        assert len(spell("word" * 20)) == 50

    def test_tokens_are_the_words_of_both_segments(self, folder):
        encoder = load_elmo(folder)
        (one,) = encoder.encode([Sentence("s", ("a", "bc"), ("d",))])
        assert one.ids == ((259, 98, 260), (259, 99, 100, 260), (259, 101, 260))
        assert (one.word_of, one.type_ids, one.words, one.kept) == ((0, 1, 2), (0, 0, 0), 3, 3)
        assert one.vanished == []
        assert encoder.summary_position(one) == 2

    @pytest.mark.parametrize("word", ["", "\ud800"])
    def test_a_word_without_characters_is_refused_with_its_place(self, folder, word):
        with pytest.raises(ModelError, match=r"corpus.txt:7: word 2, .* has no characters"):
            load_elmo(folder).encode([Sentence("s", ("fine", word), source="corpus.txt:7")])

    def test_a_sentence_without_words_is_refused(self, folder):
        with pytest.raises(CorpusError, match="sentence s: a sentence without words"):
            load_elmo(folder).encode([Sentence("s", ())])


class TestArithmetic:
    @pytest.mark.parametrize(
        "changes",
        [
            {},
            {"lstm__use_skip_connections": False},
            {"char_cnn__activation": "tanh", "char_cnn__n_highway": 1},
            {"lstm__cell_clip": None, "lstm__proj_clip": None},
            {"char_cnn__max_characters_per_token": 9, "lstm__n_layers": 1},
        ],
        ids=["clips and skips", "no skips", "tanh", "no clips", "short words"],
    )
    def test_every_layer_equals_the_one_computed_by_hand(self, tmp_path, changes):
        of = options(**changes)
        encoder = load_elmo(save(tmp_path, of))
        assert close(states(encoder), [by_hand(of, weights(of), words) for words in TEXTS])

    def test_without_clips_it_is_torchs_lstm_with_a_projection(self):
        torch.manual_seed(0)
        ours = ProjectedLSTM(6, 10, None, None)
        theirs = torch.nn.LSTM(6, 10, proj_size=6, batch_first=True)

        def gates(x: torch.Tensor) -> torch.Tensor:
            enter, candidate, forget, leave = x.chunk(4)
            return torch.cat([enter, forget, candidate, leave])

        theirs.load_state_dict({
            "weight_ih_l0": gates(ours.input.weight), "weight_hh_l0": gates(ours.recurrent.weight),
            "bias_ih_l0": gates(ours.input.bias), "bias_hh_l0": torch.zeros(40),
            "weight_hr_l0": ours.projection.weight,
        })  # fmt: skip
        inputs, hidden, memory = torch.randn(3, 40, 6), torch.randn(3, 6), torch.randn(3, 10)
        with torch.inference_mode():
            expected, (h, c) = theirs(inputs, (hidden[None].clone(), memory[None].clone()))
            assert torch.allclose(ours(inputs, [3] * 40, hidden, memory), expected, atol=1e-6)
        assert torch.allclose(hidden, h[0], atol=1e-6)
        assert torch.allclose(memory, c[0], atol=1e-6)

    def test_layer_0_is_doubled_and_knows_no_context(self, folder):
        first, again = states(load_elmo(folder), (["tide", "turns"], ["the", "tide"]))
        assert np.array_equal(first[0, :, :6], first[0, :, 6:])
        assert np.allclose(first[0, 0], again[0, 1])
        assert not np.allclose(first[1, 0], again[1, 1])

    def test_each_half_looks_one_way(self, folder):
        one, other = states(load_elmo(folder), (["the", "red", "boat", "left"], ["the", "red", "boat", "returned"]))
        assert np.allclose(one[1:, :3, :6], other[1:, :3, :6])
        assert (np.abs(one[1:, :3, 6:] - other[1:, :3, 6:]).max(-1) > 1e-4).all()
        one, other = states(load_elmo(folder), (["the", "red", "boat", "left"], ["no", "red", "boat", "left"]))
        assert np.allclose(one[1:, 1:, 6:], other[1:, 1:, 6:])
        assert (np.abs(one[1:, 1:, :6] - other[1:, 1:, :6]).max(-1) > 1e-4).all()

    def test_a_batch_in_any_order_gives_what_each_sentence_alone_gives(self, folder):
        encoder = load_elmo(folder)
        alone = [states(encoder, [words])[0] for words in TEXTS]
        assert close(states(encoder), alone)
        assert close(states(encoder, TEXTS[::-1]), alone[::-1])

    def test_padding_is_zero(self, folder):
        encoder = load_elmo(folder)
        for layer in encoder.hidden_states(encoder.encode(sentences())):
            assert layer.shape == (4, 14, 12)
            assert not layer[1, 1:].any()
            assert layer[1, 0].any()

    def test_more_words_and_steps_than_are_computed_at_once(self, folder):
        words = [f"w{number}" for number in range(300)]
        assert close(states(load_elmo(folder), [words]), [by_hand(OPTIONS, weights(OPTIONS), words)])


class TestStateful:
    def test_rows_are_streams_that_end_with_reset(self, folder):
        encoder = load_elmo(folder, stateful=True)
        assert encoder.sequential
        first, second = states(encoder, [TEXTS[0]]), states(encoder, [TEXTS[0]])
        assert np.allclose(first[0][0], second[0][0])
        assert not np.allclose(first[0][1, 0, :6], second[0][1, 0, :6], atol=1e-3)
        assert not np.allclose(first[0][1, -1, 6:], second[0][1, -1, 6:], atol=1e-3)
        encoder.reset()
        assert close(states(encoder, [TEXTS[0]]), first)
        assert close(first, states(load_elmo(folder), [TEXTS[0]]))

    def test_rows_of_batches_of_changing_size_do_not_mix(self, folder):
        streams = (TEXTS[0], TEXTS[1], TEXTS[3]), (TEXTS[2], TEXTS[3]), (TEXTS[1],)
        together = load_elmo(folder, stateful=True)
        found: dict[int, list] = {0: [], 1: [], 2: []}
        for rows in ([0, 1], [0], [0, 1, 2]):
            done = [streams[row][len(found[row])] for row in rows]
            for row, result in zip(rows, states(together, done), strict=True):
                found[row].append(result)
        for stream, results in zip(streams, found.values(), strict=True):
            apart = load_elmo(folder, stateful=True)
            assert close(results, [states(apart, [words])[0] for words in stream])

    def test_stateless_is_the_default_and_forgets(self, folder):
        encoder = load_elmo(folder)
        assert not encoder.sequential
        assert close(states(encoder), states(encoder))


class TestLoading:
    def test_what_is_known_of_a_model(self, folder):
        encoder = load_elmo(folder, name="mine")
        assert (encoder.widths, encoder.depth, encoder.limit) == ((12,) * 4, 3, None)
        described = json.loads(json.dumps(encoder.describe()))
        assert described == {
            "name": "mine", "fingerprint": encoder.fingerprint, "type": "elmo", "layers": 4, "widths": [12] * 4,
            "limit": None, "commit": None, "stateful": False,
        }  # fmt: skip
        assert load_elmo(folder).name == str(folder)

    def test_the_files_may_keep_their_published_names_beside_others(self, folder):
        expected = load_elmo(folder).fingerprint
        (folder / "options.json").rename(folder / "elmo_2x_options.json")
        (folder / "weights.hdf5").rename(folder / "elmo_2x_weights.hdf5")
        h5py.File(folder / "vectors.hdf5", "w").close()
        assert is_elmo(folder)
        assert load_elmo(folder).fingerprint == expected

    def test_what_is_taken_for_an_elmo(self, folder, tmp_path):
        assert is_elmo(folder)
        assert not is_elmo(tmp_path)
        assert not is_elmo(folder / "options.json")
        (folder / "options.json").unlink()
        assert is_elmo(folder)

    def test_the_fingerprint_tells_weights_options_and_statefulness_apart(self, folder, tmp_path):
        base = load_elmo(folder).fingerprint
        assert load_elmo(save(tmp_path / "same")).fingerprint == base
        assert load_elmo(save(tmp_path / "tuned", tensors=weights(OPTIONS, seed=1))).fingerprint != base
        assert load_elmo(save(tmp_path / "clip", options(lstm__cell_clip=2.0))).fingerprint != base
        assert load_elmo(folder, stateful=True).fingerprint != base

    def test_the_random_twin_has_the_shape_but_not_the_weights(self, folder):
        encoder = load_elmo(folder, name="elmo", stateful=True)
        before = torch.get_rng_state()
        twin = encoder.random_twin(seed=3)
        assert torch.equal(torch.get_rng_state(), before)
        assert (twin.name, twin.widths, twin.sequential) == ("elmo (random twin)", encoder.widths, True)
        assert twin.fingerprint == encoder.random_twin(seed=3).fingerprint
        assert len({twin.fingerprint, encoder.fingerprint, encoder.random_twin(seed=4).fingerprint}) == 3
        assert not close(states(twin), states(encoder))

    def test_the_original_sizes_give_the_published_number_of_parameters(self):
        filters = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
        with torch.device("meta"):
            network = BiLM(ElmoSettings(CnnSettings(16, filters, 2, 512), 2, 4096, 3, 3, True))
        assert round(sum(weight.numel() for weight in network.parameters()) / 1e6, 1) == 93.6

    def test_a_model_as_wide_as_the_original(self, tmp_path):
        of = options(lstm__projection_dim=512, lstm__dim=48, lstm__n_layers=2)
        tensors = weights(of)
        encoder = load_elmo(save(tmp_path / "skip", of, tensors))
        assert encoder.widths == (1024, 1024, 1024)
        of["lstm"]["use_skip_connections"] = False
        for skip, plain in zip(states(encoder), states(load_elmo(save(tmp_path / "plain", of, tensors))), strict=True):
            assert np.allclose(skip[:2], plain[:2], atol=1e-5)
            assert np.allclose(skip[2], plain[2] + plain[1], atol=1e-5)
            assert np.abs(plain[1]).max() > 0.05


class TestBadFiles:
    @pytest.mark.parametrize("share", [0, 0.3, 0.98])
    def test_a_cut_off_weights_file(self, folder, share):
        content = (folder / "weights.hdf5").read_bytes()
        (folder / "weights.hdf5").write_bytes(content[: int(share * len(content))])
        with pytest.raises(ModelError, match=r"weights.hdf5: not a whole HDF5 file"):
            load_elmo(folder)

    def test_a_weights_file_of_another_format(self, folder):
        (folder / "weights.hdf5").write_text("<html>not found</html>" * 100)
        with pytest.raises(ModelError, match=r"weights.hdf5: not a whole HDF5 file"):
            load_elmo(folder)

    def test_a_corrupt_header(self, folder):
        content = bytearray((folder / "weights.hdf5").read_bytes())
        content[40:400] = bytes(360)
        (folder / "weights.hdf5").write_bytes(content)
        with pytest.raises(ModelError, match=r"weights.hdf5"):
            load_elmo(folder)

    def test_values_that_are_not_numbers(self, tmp_path):
        tensors = weights(OPTIONS)
        tensors["CNN_proj/b_proj"][1] = np.nan
        with pytest.raises(ModelError, match="CNN_proj/b_proj holds NaN"):
            load_elmo(save(tmp_path, tensors=tensors))

    @pytest.mark.parametrize(
        ("missing", "message"),
        [
            ("options.json", "expected one options file .* found none"),
            ("weights.hdf5", "expected one weights .* found none"),
        ],
    )
    def test_a_missing_file(self, folder, missing, message):
        (folder / missing).unlink()
        with pytest.raises(ModelError, match=message):
            load_elmo(folder)

    def test_two_weights_files(self, folder):
        (folder / "old_weights.hdf5").write_bytes((folder / "weights.hdf5").read_bytes())
        with pytest.raises(ModelError, match=r"found old_weights.hdf5, weights.hdf5"):
            load_elmo(folder)

    def test_no_folder(self, tmp_path):
        with pytest.raises(ModelError, match="no such folder"):
            load_elmo(tmp_path / "nowhere")

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"lstm__dim": 8}, r"W_0 has shape \(12, 48\), but .*options.json asks for \(12, 32\) .*lstm.dim = 8"),
            ({"lstm__projection_dim": 7}, r"W_proj has shape \(12, 6\), but .* \(12, 7\) .*lstm.projection_dim = 7"),
            ({"lstm__n_layers": 4}, r"no RNN_0/.*Cell3.* asks for \(lstm.n_layers = 4"),
            ({"lstm__n_layers": 2}, r"holds RNN_0/.*Cell2.* does not ask for \(lstm.n_layers = 2"),
            ({"char_cnn__n_highway": 1}, r"holds CNN_high_1/.*\(char_cnn.n_highway = 1"),
            ({"char_cnn__n_highway": None}, r"holds CNN_high_0/.*\(char_cnn.n_highway = \(none\)"),
            ({"char_cnn__embedding__dim": 4}, r"char_embed has shape \(261, 5\), .* \(261, 4\) .*embedding.dim = 4"),
            (
                {"char_cnn__filters": [[1, 4], [3, 5], [4, 3]]},
                r"CNN/W_cnn_1 has shape \(1, 2, 5, 5\), .* \(1, 3, 5, 5\) \(char_cnn.filters",
            ),
            ({"char_cnn__n_characters": 300}, "char_cnn.n_characters is 300, .* only 262 or 261"),
            ({"char_cnn__activation": "gelu"}, "char_cnn.activation is 'gelu', .* only 'relu' or 'tanh'"),
            ({"char_cnn__filters": [[1, 4], [2]]}, r"char_cnn.filters should hold pairs \[width, number\]"),
            (
                {"char_cnn__max_characters_per_token": 3},
                "char_cnn.filters has filters of width 4, but words have 3 char",
            ),
            ({"lstm__dim": None}, "no option lstm.dim"),
            ({"lstm__dim": "many"}, "option lstm.dim should be of type int, found 'many'"),
            ({"lstm__dim": True}, "option lstm.dim should be of type int, found True"),
            ({"lstm__n_layers": 0}, "option lstm.n_layers should be positive, found 0"),
            ({"lstm": 3}, "no option lstm"),
        ],
    )
    def test_options_that_disagree_with_the_weights(self, folder, changes, message):
        (folder / "options.json").write_text(json.dumps(options(**changes)))
        with pytest.raises(ModelError, match=message):
            load_elmo(folder)

    @pytest.mark.parametrize("text", [b"{", b"\xff\xfe", b""])
    def test_options_that_are_not_json(self, folder, text):
        (folder / "options.json").write_bytes(text)
        with pytest.raises(ModelError, match=r"options.json: not JSON"):
            load_elmo(folder)

    def test_commas_before_brackets_are_no_mistake(self):
        read = Options.read(b'{"a": [1, 2,],\n "b": "x,] \\",}", }', "config.json")
        assert read.values == {"a": [1, 2], "b": 'x,] ",}'}
