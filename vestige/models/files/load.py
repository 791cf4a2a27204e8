"""`load_model`: a name, a folder or a model in memory becomes an Encoder.

Weights come from safetensors only, remote code is off, and after loading every tensor is
compared with the file it came from: silently re-initialised weights would pass every other check.

transformers, which takes seconds to import, is imported when a model is loaded: a study is planned without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from vestige.cache import cache_folder
from vestige.errors import ModelError
from vestige.models.encoders.elmo import is_elmo, load_elmo
from vestige.models.encoders.encoder import Encoder
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.encoders.reading import Reading
from vestige.models.encoders.telmo import is_telmo, load_telmo
from vestige.models.files.sources import is_folder, model_folder
from vestige.models.files.weights import (
    INSTEAD,
    check_config,
    check_nothing_left,
    check_weight_files,
    compare_with_files,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

RANDOM_TWIN_SEED = 1234
_AS_CODE = "the folder brings code of its own: read it, and if you trust it, load_model(..., trust_remote_code=True)"


def load_model(
    source: str | Path | PreTrainedModel,
    *,
    tokenizer: PreTrainedTokenizerBase | str | Path | None = None,
    name: str | None = None,
    revision: str | None = None,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    trust_remote_code: bool = False,
    base: str | Path | None = None,
    head: bool = False,
    stateful: bool = False,
    device_map: str | Mapping[str, Any] | None = None,
    **reading: Any,
) -> Encoder:
    """An Encoder from "minilm", a folder, a hub id, a model in memory (with its tokenizer), or ELMo's files.

    Of a fine-tuned checkpoint (…ForSequenceClassification and kin) the backbone is taken. A folder
    with a PEFT adapter is loaded onto its base (`base`, else the one the adapter names). `head`
    keeps the language-model head, for `logits`. `device_map` ("auto", or accelerate's mapping)
    spreads a model over devices, memory and disk. Further keywords are those of `Reading`:
    final_norm, sink, chat, part.
    """
    from transformers import PreTrainedModel

    read = Reading(**reading)
    if device is not None:
        check_device(device)
    if isinstance(source, PreTrainedModel):
        if tokenizer is None:
            raise ModelError("a model in memory needs its tokenizer", fix="load_model(model, tokenizer=tokenizer)")
        if head and source.get_output_embeddings() is None:
            raise ModelError(f"{type(source).__name__} has no language-model head", fix="load it without head=True")
        whole = source if head else None
        encoder = HuggingFaceEncoder(
            source.base_model, find_tokenizer(tokenizer), name or type(source).__name__, device, read, whole
        )
        check_runs(encoder)
        return encoder
    placed = {"head": head, "device_map": device_map, "dtype": dtype != torch.float32}
    of_no_use = {**read.changes(), "tokenizer": tokenizer, "base": base, **placed}
    is_folder(Path(source))
    if is_elmo(source):
        _refuse(of_no_use, f"{source} is an ELMo")
        return load_elmo(source, name, device, stateful)
    if is_telmo(source):
        _refuse({**of_no_use, "stateful": stateful}, f"{source} is a T-ELMo")
        return load_telmo(source, name, device)
    _refuse({"stateful": stateful}, f"{source} is no ELMo")
    folder = model_folder(source, revision)
    if (folder / "adapter_config.json").exists():
        from vestige.models.encoders.adapters import load_adapter

        _refuse(placed, f"{folder} is an adapter")
        return load_adapter(folder, base, tokenizer=tokenizer, name=name or str(source), device=device, reading=read)
    _refuse({"base": base}, f"{folder} is no adapter")
    check_weight_files(folder)
    model, whole = load_backbone(folder, dtype, trust_remote_code, head, device_map, read)
    place = None if device_map is not None else device
    made = find_tokenizer(folder if tokenizer is None else tokenizer, trust_remote_code)
    encoder = HuggingFaceEncoder(model, made, name or str(source), place, read, whole)
    check_runs(encoder)
    return encoder


def check_runs(encoder: HuggingFaceEncoder) -> None:
    """A model may load and yet not run: its own checks, and an error in our words where it breaks in them."""
    try:
        encoder.verify()
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError, ZeroDivisionError) as error:
        raise ModelError(
            f"{encoder.name}: it was loaded but cannot read a sentence ({type(error).__name__}: {error})",
            fix="check that config.json and the tokenizer belong to these weights",
        ) from error


def random_twin(encoder: Encoder, seed: int = RANDOM_TWIN_SEED) -> Encoder:
    """The same architecture with freshly drawn weights: what training gave, taken away."""
    return encoder.random_twin(seed)


def check_device(device: str) -> None:
    """An error where this machine has no such device."""
    if not re.fullmatch(r"(cpu|cuda|mps|xpu)(:\d+)?", device):
        raise ModelError(f"no device {device!r} is known", fix="use cpu, cuda (or cuda:1, ...) or mps")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(
            f"no device {device!r} here ({str(error).splitlines()[0]})", fix="use cpu, or a torch build that has it"
        ) from error


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep transformers' bars and load reports off the screen; what they say is checked here."""
    from transformers.utils import logging as transformers_logging

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


_VOCABULARIES = ("tokenizer.model", "tekken.json")
"""Files that transformers turns into a tokenizer of any class."""

_SAVE_TOKENIZER = (
    "save the tokenizer there (tokenizer.save_pretrained), or name the folder that has it: tokenizer= of load_model, "
    "tokenizer: of a model in a study file, --tokenizer of vestige compare"
)


def load_tokenizer(folder: Path, trust_remote_code: bool = False) -> PreTrainedTokenizerBase:
    """The folder's tokenizer, as it was saved; nobody is asked whether its code may run.

    Of a folder without its files, as `model.save_pretrained()` alone leaves it, transformers makes a tokenizer that
    knows a handful of special tokens and no word at all.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust_remote_code)
        tokenizer("a")  # some settings show only now that they are none
    except Exception as error:
        raise ModelError(f"{folder}: its tokenizer does not load ({error})", fix=_SAVE_TOKENIZER) from error
    wanted = dict.fromkeys(("tokenizer.json", *tokenizer.vocab_files_names.values(), *_VOCABULARIES))
    if not any((folder / name).exists() for name in wanted):
        raise ModelError(f"{folder}: no tokenizer in it, expected {next(iter(wanted))}", fix=_SAVE_TOKENIZER)
    return tokenizer


def _way_out(error: Exception) -> str:
    """What to do where transformers cannot load a folder."""
    if "trust_remote_code" in str(error):
        return _AS_CODE
    if isinstance(error, ImportError):
        quantised = f", or {INSTEAD}" if "quanti" in str(error) else ""
        return f"install the package that it names{quantised}"
    return "check that the folder is whole, and its config.json"


def load_backbone(
    folder: Path,
    dtype: torch.dtype,
    trust_remote_code: bool,
    head: bool,
    device_map: str | Mapping[str, Any] | None,
    reading: Reading,
) -> tuple[PreTrainedModel, PreTrainedModel | None]:
    """The backbone, and with `head` also the model that holds it and its language-model head."""
    from transformers import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING, AutoConfig, AutoModel

    placing: dict[str, Any] = {}
    if device_map is not None:
        placing = {"device_map": device_map, "offload_folder": str(cache_folder() / "offload")}
    try:
        with quiet_transformers():
            config = AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code)
            check_config(config, folder)
            if any(name.endswith("EncoderModel") for name in config.architectures or ()):
                config.is_encoder_decoder = type(config) in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING  # as AutoModel does
            kind = _language_model(config, folder) if head else AutoModel
            whole, info = kind.from_pretrained(
                folder,
                config=config,
                dtype=dtype,
                use_safetensors=True,
                trust_remote_code=trust_remote_code,
                output_loading_info=True,
                **placing,
            )
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(
            f"{folder}: transformers cannot load it ({type(error).__name__}: {error})",
            fix=_way_out(error),
        ) from error
    only_encoder = whole.config.is_encoder_decoder and reading.part == "encoder" and not head
    unread = ("pooler.", "decoder.") if only_encoder else ("pooler.",)
    lost = sorted(key for key in info["missing_keys"] if not key.startswith(unread))
    if lost or info.get("mismatched_keys"):
        problem = lost or sorted(map(str, info["mismatched_keys"]))
        part = "model and its head" if head else "backbone"
        raise ModelError(
            f"{folder}: {len(problem)} weights of the {part} are not in its files, for example {problem[0]}",
            fix="the folder does not hold this architecture's weights; check config.json"
            + (", and that it was saved with its language-model head" if head else ""),
        )
    check_nothing_left(whole, info["unexpected_keys"], folder)
    if dtype == torch.float32:
        compare_with_files(whole.base_model, folder)
    return whole.base_model, whole if head else None


def _language_model(config: Any, folder: Path) -> Any:
    """The class with the head the configuration has: masked, else sequence to sequence, else causal."""
    import transformers

    for mapping, kind in (
        (transformers.MODEL_FOR_MASKED_LM_MAPPING, transformers.AutoModelForMaskedLM),
        (transformers.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING, transformers.AutoModelForSeq2SeqLM),
        (transformers.MODEL_FOR_CAUSAL_LM_MAPPING, transformers.AutoModelForCausalLM),
    ):
        if type(config) in mapping:
            return kind
    raise ModelError(f"{folder}: {config.model_type} has no language-model head", fix="load it without head=True")


def _refuse(options: Mapping[str, Any], because: str) -> None:
    """Options that would have no effect are mistakes."""
    given = [name for name, value in options.items() if value not in (None, False)]
    if given:
        raise ModelError(f"{because}, so {given[0]!r} has no meaning", fix=f"leave {given[0]!r} out")


def find_tokenizer(
    given: PreTrainedTokenizerBase | str | Path, trust_remote_code: bool = False
) -> PreTrainedTokenizerBase:
    """A tokenizer in memory is copied: the Encoder changes how it starts words, its owner's stays as it was."""
    from transformers import PreTrainedTokenizerBase

    if isinstance(given, PreTrainedTokenizerBase):
        return deepcopy(given)
    return load_tokenizer(model_folder(given), trust_remote_code)
