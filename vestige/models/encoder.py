"""The Encoder: one interface over every model that turns words into layers of hidden states."""

import inspect
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, Protocol

import torch
from tokenizers import normalizers
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from vestige.corpus.types import Sentence
from vestige.digest import digest_chunks, digest_json
from vestige.errors import ModelError
from vestige.models.align import SPECIAL, Encoded, Overflow, align


class Encoder(Protocol):
    """What representations and analyses ask of a model."""

    name: str

    @property
    def widths(self) -> tuple[int, ...]:
        """Width of every layer, embeddings (layer 0) first."""

    @property
    def fingerprint(self) -> str:
        """Hash of weights, configuration and tokenizer: equal fingerprints, equal numbers."""

    def encode(self, sentences: Sequence[Sentence], on_overflow: Overflow = "truncate") -> list[Encoded]:
        """Tokens of every sentence, with the words they belong to."""

    def hidden_states(self, batch: Sequence[Encoded]) -> tuple[Tensor, ...]:
        """Per layer a tensor (sentences, tokens, width), padded on the right."""

    def summary_position(self, encoded: Encoded) -> int:
        """Position of the token that stands for the sentence (CLS; the last token of decoders)."""


class HuggingFaceEncoder:
    """Any transformers backbone with a fast tokenizer.

    Sentences are padded on the right whatever the tokenizer's own side, so that absolute
    positions are those of the sentence run alone; relative-position families (XLNet) do not mind.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        name: str,
        device: str | torch.device = "cpu",
    ) -> None:
        if not tokenizer.is_fast:
            raise ModelError(
                f"{name}: its tokenizer cannot say which word a token came from",
                fix="use a fast tokenizer (a tokenizer.json beside the model)",
            )
        self.name = name
        self.model = model.to(device).eval()
        self.tokenizer = with_prefix_space(tokenizer)
        self.device = torch.device(device)

    @property
    def config(self) -> Any:
        return self.model.config

    @cached_property
    def widths(self) -> tuple[int, ...]:
        with torch.inference_mode():
            states = self.hidden_states([Encoded((0, 0), (0, 0), (0, 1), 2, 2)])
        return tuple(state.shape[-1] for state in states)

    @cached_property
    def depth(self) -> int:
        """Number of blocks: layers are 0 (embeddings) to `depth`."""
        return len(self.widths) - 1

    @cached_property
    def limit(self) -> int | None:
        """The most tokens, special ones included, that the model takes; None if it has no limit."""
        for path, module in self.model.named_modules():
            if isinstance(module, torch.nn.Embedding) and path.endswith(("position_embeddings", "wpe")):
                taken = 0 if module.padding_idx is None else module.padding_idx + 1
                return module.num_embeddings - taken
        positions = getattr(self.config, "max_position_embeddings", None)
        return positions if positions and positions > 0 else None

    @cached_property
    def fingerprint(self) -> str:
        return digest_json([weights_digest(self.model), _config(self.config), tokenizer_digest(self.tokenizer)])

    def encode(self, sentences: Sequence[Sentence], on_overflow: Overflow = "truncate") -> list[Encoded]:
        return list(align(self.tokenizer, sentences, self.limit, on_overflow))

    @torch.inference_mode()
    def hidden_states(self, batch: Sequence[Encoded]) -> tuple[Tensor, ...]:
        output = self.model(**self.inputs(batch), output_hidden_states=True)
        return tuple(state[0] if isinstance(state, tuple) else state for state in output.hidden_states)

    def summary_position(self, encoded: Encoded) -> int:
        cls = self.tokenizer.cls_token_id
        for position, (token, word) in enumerate(zip(encoded.ids, encoded.word_of, strict=True)):
            if token == cls and word == SPECIAL:
                return position
        return len(encoded.ids) - 1

    def inputs(self, batch: Sequence[Encoded], side: Literal["left", "right"] = "right") -> dict[str, Any]:
        """The model's keyword arguments for a padded batch."""
        longest = max(len(encoded.ids) for encoded in batch)
        pad = self.tokenizer.pad_token_id or 0
        ids = torch.full((len(batch), longest), pad)
        types = torch.zeros_like(ids)
        mask = torch.zeros_like(ids)
        for row, encoded in enumerate(batch):
            length = len(encoded.ids)
            place = slice(0, length) if side == "right" else slice(longest - length, longest)
            ids[row, place] = torch.tensor(encoded.ids)
            types[row, place] = torch.tensor(encoded.type_ids)
            mask[row, place] = 1
        inputs: dict[str, Any] = {"input_ids": ids.to(self.device), "attention_mask": mask.to(self.device)}
        if "token_type_ids" in self.tokenizer.model_input_names and "token_type_ids" in self._accepts:
            inputs["token_type_ids"] = types.to(self.device)
        for memory in ("use_cache", "use_mems"):
            if memory in self._accepts:
                inputs[memory] = False
        return inputs

    @cached_property
    def _accepts(self) -> frozenset[str]:
        return frozenset(inspect.signature(self.model.forward).parameters)


def with_prefix_space(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """Tokenizers that mark word starts by a space must see one before every word, the first included.

    Without it the words of a pre-split input are cut like the middles of other words. Byte-level
    pre-tokenizers (RoBERTa, GPT-2) have a flag for it; where one is not alone (Llama 3, Qwen) or
    there is none (Gemma) the space is put in front by a normalizer.
    """
    backend = tokenizer.backend_tokenizer
    if hasattr(backend.pre_tokenizer, "add_prefix_space"):
        backend.pre_tokenizer.add_prefix_space = True
    if hasattr(tokenizer, "add_prefix_space"):
        tokenizer.add_prefix_space = True
    if not _starts_words_as_in_text(tokenizer):
        before = [] if backend.normalizer is None else [backend.normalizer]
        backend.normalizer = normalizers.Sequence([normalizers.Prepend(" "), *before])
    return tokenizer


def _starts_words_as_in_text(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether the second word of ["a", "a"] gets the tokens that it gets in "a a"."""
    split = tokenizer(["a", "a"], is_split_into_words=True, add_special_tokens=False)
    second = [token for token, word in zip(split["input_ids"], split.word_ids(), strict=True) if word == 1]
    one, two = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("a", "a a"))
    return second == two[len(one) :]


def weights_digest(model: PreTrainedModel) -> str:
    """Hash of every parameter and buffer, by name; the pooler shapes no layer and is left out."""

    def chunks() -> Iterator[bytes]:
        for name, tensor in sorted(model.state_dict().items()):
            if name.startswith("pooler."):
                continue
            yield f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode()
            yield tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes()

    return digest_chunks(chunks())


def tokenizer_digest(tokenizer: PreTrainedTokenizerBase) -> str:
    """Hash of the tokenizer's rules and vocabulary."""
    return digest_chunks([tokenizer.backend_tokenizer.to_str().encode()])


_BOOKKEEPING = {
    "_name_or_path", "architectures", "transformers_version", "dtype", "torch_dtype", "id2label",
    "label2id", "problem_type", "finetuning_task", "task_specific_params",
}  # fmt: skip


def _config(config: Any) -> dict[str, Any]:
    """The part of a configuration that shapes the backbone's numbers."""
    return {k: str(v) for k, v in sorted(config.to_dict().items()) if k not in _BOOKKEEPING}
