"""Hostile model folders, adapters, ELMo's files and files of activations."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from hostile import model_samples as samples
from hostile.case import Case
from hostile.odd_files import CONTENTS, PLACES
from vestige.models.files.load import load_model
from vestige.models.files.series import find_checkpoints

FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


def _spoilt(name: str, make: Callable[[Path], None]) -> Callable[[Path], Any]:
    def act(folder: Path) -> Any:
        samples.write(folder, samples.model_files())
        make(folder / name)
        return samples.load(folder)

    return act


def _changed(name: str, **values: Any) -> Callable[[Path], Any]:
    def act(folder: Path) -> Any:
        files = samples.model_files()
        content = json.dumps({**json.loads(files[name]), **values}).encode()
        return samples.load(samples.write(folder, files, **{name: content}))

    return act


def _tensors(change: Callable[[dict[str, torch.Tensor]], Any]) -> Callable[[Path], Any]:
    def act(folder: Path) -> Any:
        files = samples.model_files()
        tensors = load_tensors(files["model.safetensors"])
        change(tensors)
        content = save_tensors(tensors, {"format": "pt"})
        return samples.load(samples.write(folder, files, **{"model.safetensors": content}))

    return act


def _models() -> Iterator[Case]:
    kind = "models"
    optional = {
        ("tokenizer_config.json", "no file"),
        ("tokenizer_config.json", "a link to itself"),
        ("tokenizer_config.json", "a folder"),
    }
    for name in FILES:
        for what, make in {**PLACES, **CONTENTS}.items():
            if (name, what) not in optional:
                yield Case(kind, f"{name}: {what}", _spoilt(name, make))
    for key, values in {
        "num_hidden_layers": (0, -1, 2, 10**6, 1.5, "x", None, []), "hidden_size": (0, -1, 33, 10**9, "x"),
        "num_attention_heads": (0, -1, 7), "vocab_size": (0, -1, 10**9), "model_type": ("x", None, 3, "gpt2"),
        "architectures": (3, ["x", None]), "hidden_act": ("x", None), "max_position_embeddings": (0, -1),
        "attn_implementation": ("a/b",), "dtype": ("x",), "layer_norm_eps": ("x", None),
    }.items():  # fmt: skip
        for value in values:
            yield Case(kind, f"config.json: {key} = {value!r}", _changed("config.json", **{key: value}))
    for key, value in (
        ("model_max_length", []),
        ("tokenizer_class", 3),
        ("added_tokens_decoder", {"x": 1}),
        ("pad_token", [1]),
    ):
        yield Case(kind, f"tokenizer_config.json: {key} = {value!r}", _changed("tokenizer_config.json", **{key: value}))
    first = "encoder.layer.0.output.dense.weight"
    yield Case(kind, "weights: NaN", _tensors(lambda t: t[first].fill_(torch.nan)), "NaN")
    yield Case(kind, "weights: infinite", _tensors(lambda t: t[first].fill_(torch.inf)), "infinite")
    yield Case(kind, "weights: one is missing", _tensors(lambda t: t.pop(first)), "not in its files")
    yield Case(kind, "weights: one of another shape", _tensors(lambda t: t.update({first: t[first][:3]})), "")
    yield Case(kind, "weights: none at all", _tensors(lambda t: t.clear()), "")
    yield Case(
        kind,
        "weights: a layer too many",
        _tensors(lambda t: t.update({first.replace("0", "7"): t[first].clone()})),
        "no layer",
    )
    for name, source in (
        ("a name with NUL", "a\0b"), ("a name of 5,000 letters", "a" * 5000), ("an empty name", ""), ("a device", "/dev/zero"),
        ("a name upwards", "../../../nowhere/at/all"), ("a name that is no name", "a b c!"), ("a name of slashes", "////"),
    ):  # fmt: skip
        yield Case(kind, name, lambda folder, source=source: load_model(source))
    yield Case(
        kind, "a folder of checkpoints that is none", lambda folder: find_checkpoints(folder), "checkpoint-<step>"
    )


def _adapter(**values: Any) -> Callable[[Path], Any]:
    def act(folder: Path) -> Any:
        files = samples.adapter_files()
        name = "adapter/adapter_config.json"
        content = json.dumps({**json.loads(files[name]), **values}).encode()
        samples.write(folder, files, **{name: content})
        return load_model(folder / "adapter", base=folder / "base")

    return act


def _odd_adapter(name: str, make: Callable[[Path], None]) -> Callable[[Path], Any]:
    def act(folder: Path) -> Any:
        samples.write(folder, samples.adapter_files())
        make(folder / "adapter" / name)
        return load_model(folder / "adapter", base=folder / "base")

    return act


def _adapters() -> Iterator[Case]:
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        for what, make in {**PLACES, **CONTENTS}.items():
            yield Case("adapters", f"{name}: {what}", _odd_adapter(name, make))
    for key, values in {
        "target_modules": ("([a-z.0-9_]+)+[^a-z]!", "(", 3, [], ["nothing"], "(((((a*)*)*)*)*)*b"),
        "r": (0, -1, "x", 10**6), "peft_type": ("x", None, "PROMPT_TUNING"), "rank_pattern": ({"(a*)*b": 3, "(": 1}, 3),
        "modules_to_save": (3,), "megatron_config": ({"a": 1},), "base_model_name_or_path": (3,),
    }.items():  # fmt: skip
        for value in values:
            fine = key == "base_model_name_or_path"
            yield Case("adapters", f"{key} = {value!r}", _adapter(**{key: value}), None if fine else "")


def _elmo(name: str, make: Callable[[Path], None]) -> Callable[[Path], Any]:
    def act(folder: Path) -> Any:
        options = {"lstm": {"n_layers": 2}, "char_cnn": {}}
        (folder / "options.json").write_text(json.dumps(options))
        with h5py.File(folder / "weights.hdf5", "w") as file:
            file["x"] = np.zeros(3)
        make(folder / name)
        return load_model(folder)

    return act


def _characters() -> Iterator[Case]:
    for name in ("options.json", "weights.hdf5"):
        for what, make in {**PLACES, **CONTENTS}.items():
            yield Case("ELMo", f"{name}: {what}", _elmo(name, make))
    for what, make in {**PLACES, **CONTENTS}.items():
        yield Case("ELMo", f"model.tar.gz: {what}", lambda folder, make=make: _archive(folder, make))


def _archive(folder: Path, make: Callable[[Path], None]) -> Any:
    (folder / "model.tar.gz").write_bytes(b"")
    make(folder / "model.tar.gz")
    return load_model(folder / "model.tar.gz")


def _activations(name: str, make: Callable[[Path], None]) -> Callable[[Path], Any]:
    def act(folder: Path) -> Any:
        (folder / name).write_bytes(samples.hdf5_file() if name.endswith("hdf5") else samples.json_file())
        make(folder / name)
        return samples.activations(folder / name)

    return act


def _written(change: Callable[[h5py.File, Path], Any]) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with h5py.File(path, "a") as file:
            change(file, path.parent)

    return make


def _record(**values: Any) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        lines = samples.json_file().decode().splitlines()
        path.write_text("\n".join([json.dumps({**json.loads(lines[0]), **values}), *lines[1:]]))

    return make


def _replaced(value: Any, **options: Any) -> Callable[[h5py.File, Path], None]:
    def change(file: h5py.File, folder: Path) -> None:
        del file["0"]
        file.create_dataset("0", data=value, **options)

    return change


def _outside(file: h5py.File, folder: Path) -> None:
    with h5py.File(folder / "other.hdf5", "w") as other:
        other["secret"] = np.zeros((2, 3, 4), "float32")
    del file["0"]
    file["0"] = h5py.ExternalLink("other.hdf5", "/secret")


def _stored_outside(file: h5py.File, folder: Path) -> None:
    (folder / "raw.bin").write_bytes(bytes(96))
    del file["0"]
    file.create_dataset("0", (2, 3, 4), "float32", external=[(str(folder / "raw.bin"), 0, 96)])


def _bomb(file: h5py.File, folder: Path) -> None:
    del file["0"]
    file.create_dataset("0", (2, 3, 10**9), "float32", chunks=(1, 1, 2**20), compression="gzip", fillvalue=0)


def _files_of_activations() -> Iterator[Case]:
    kind = "activations"
    for name in ("a.hdf5", "a.json", "a.npz", "a.safetensors"):
        for what, make in {**PLACES, **CONTENTS}.items():
            yield Case(kind, f"{name}: {what}", _activations(name, make))
    changes: Mapping[str, Callable[[h5py.File, Path], Any]] = {
        "NaN": _replaced(np.full((2, 3, 4), np.nan)), "texts": _replaced(np.full((2, 3, 4), b"x")),
        "one dimension": _replaced(np.zeros(3)), "other words": _replaced(np.zeros((2, 9, 4))), "a link outside": _outside,
        "storage outside": _stored_outside, "24 GB of zeros": _bomb, "no sentence 0": lambda file, folder: file.pop("0"),
        "a group": lambda file, folder: (file.pop("0"), file.create_group("0")), "sentence 99": lambda f, _: f.move("0", "99"),
        "an index that is no JSON": lambda f, _: (f.pop("sentence_to_index"), f.create_dataset("sentence_to_index", data=[3.0])),
    }  # fmt: skip
    for what, change in changes.items():
        yield Case(kind, f"a.hdf5: {what}", _activations("a.hdf5", _written(change)))
    for key, values in {
        "linex_index": (-1, 99, 1.5, "0", None, True, 10**30, 1), "features": (None, [], {}, 3, [None], [{"token": "x"}]),
    }.items():  # fmt: skip
        for value in values:
            yield Case(kind, f"a.json: {key} = {value!r}", _activations("a.json", _record(**{key: value})))
    for value in ("NaN", "1e999", "9" * 5000, '"x"', "null", "[]"):
        spoil = samples.json_file().replace(b"0.5", value.encode(), 1)
        yield Case(kind, f"a.json: {value[:9]} as a value", _activations("a.json", lambda p, s=spoil: p.write_bytes(s)))
    arrays: Mapping[str, Any] = {
        "objects, which are pickles": np.array([{}, []], dtype=object), "texts": np.full((2, 3, 4), "x"),
        "NaN": np.full((5, 4), np.nan), "one dimension": np.zeros(3), "other words": np.zeros((9, 4)),
    }  # fmt: skip
    for what, array in arrays.items():
        keep = {"layer_0": array}
        yield Case(kind, f"a.npz: {what}", _activations("a.npz", lambda path, keep=keep: np.savez(path, **keep)))
    yield Case(kind, "a suffix of no format", lambda folder: samples.activations(folder / "a.mat"), "no format")


CASES = [*_models(), *_adapters(), *_characters(), *_files_of_activations()]
