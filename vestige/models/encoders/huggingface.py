"""Any Hugging Face model as an Encoder, by what it can do and not by the name of its family."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from vestige.corpus.types import Sentence
from vestige.digest import digest_chunks, digest_json
from vestige.errors import CorpusError, ModelError
from vestige.models.encoders.encoder import one_line
from vestige.models.encoders.reading import AS_IS, Reading
from vestige.models.encoders.sink import has_sink
from vestige.models.encoders.threads import runs_in_threads
from vestige.models.files.identity import config_identity, hash_tensors, tokenizer_digest
from vestige.models.files.weights import stored_tensors
from vestige.models.surgery.anatomy import final_norm, watching
from vestige.models.tokens.align import SPECIAL, Encode, Encoded, Overflow, align, encode_words, with_sink
from vestige.models.tokens.chat import encode_chat, frame_of
from vestige.models.tokens.prefix_space import with_prefix_space
from vestige.products import faster_linear

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TOLERANCE = 1e-5
"""How far a padded batch may be from the sentence run alone, relative to max(1, the layer's largest value)."""

_TWO_TOKENS = Encoded((0, 0), (0, 0), (0, 1), 2, 2)


class HuggingFaceEncoder:
    """Any transformers backbone with a fast tokenizer.

    Sentences are padded on the right whatever the tokenizer's own side, so that absolute
    positions are those of the sentence run alone; relative-position families (XLNet) do not mind.
    Where padding would still change a model's numbers, sentences are run one by one (see `verify`).
    """

    sequential = False

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        name: str,
        device: str | torch.device | None = "cpu",
        reading: Reading = AS_IS,
        head: PreTrainedModel | None = None,
    ) -> None:
        """`model` is a backbone; `head` the same with its language-model head. Device None: where it lies."""
        if not tokenizer.is_fast:
            raise ModelError(
                f"{name}: its tokenizer cannot say which word a token came from",
                fix="use a fast tokenizer (a tokenizer.json beside the model)",
            )
        self.name = name
        self.reading = reading
        self.model = part_of(model, reading).eval()
        self.head = None if head is None else head.eval()
        if device is not None:
            self.model.to(device)
            if head is not None:
                head.to(device)
        self.tokenizer = with_prefix_space(tokenizer) if reading.chat is None else tokenizer
        self.device = torch.device(device) if device is not None else _entrance(self.model)
        self.alone = False

    def __repr__(self) -> str:
        """Name, family, size, limit and device."""
        return one_line(self, self.config.model_type, self.model.num_parameters(), self.limit, self.device)

    @property
    def config(self) -> Any:
        return self.model.config

    @property
    def stack(self) -> torch.nn.Module:
        """The module that holds the blocks that are read."""
        return self.model.get_decoder() if self._decoding else self.model

    @cached_property
    def widths(self) -> tuple[int, ...]:
        return tuple(state.shape[-1] for state in self._states([_TWO_TOKENS]))

    @cached_property
    def depth(self) -> int:
        """Number of blocks: layers are 0 (embeddings) to `depth`."""
        return len(self.widths) - 1

    @cached_property
    def limit(self) -> int | None:
        """The most tokens, special ones included, that the model takes; None if it has no limit."""
        for path, module in self.model.named_modules():
            named = path.removesuffix(".base_layer").endswith(("position_embeddings", "wpe"))
            if named and isinstance(module, torch.nn.Embedding):
                taken = 0 if module.padding_idx is None else module.padding_idx + 1
                return module.num_embeddings - taken
        positions = getattr(self.config, "max_position_embeddings", None)
        return positions if positions and positions > 0 else None

    @cached_property
    def fingerprint(self) -> str:
        identity = [self.weights_digest(), config_identity(self.config), tokenizer_digest(self.tokenizer)]
        changes = self.how_read()
        if self.reading.chat is not None:
            changes["frame"] = frame_of(self.tokenizer, self.reading.chat)
        return digest_json([*identity, changes] if changes else identity)

    @cached_property
    def leaves_out_first(self) -> bool:
        if self.reading.sink == "auto":
            return has_sink(self)
        return self.reading.sink == "leave_out"

    @property
    def in_threads(self) -> bool:
        """Whether several threads may run batches at once; a norm that is read by a hook allows one."""
        return self.reading.final_norm == "as_is" and runs_in_threads(self.model)

    def sink_like(self, leave_out: bool) -> HuggingFaceEncoder:
        """The same model with `auto` decided as for the one that it is compared with."""
        if self.reading.sink != "auto" or self.leaves_out_first == leave_out:
            return self
        made = copy(self)
        made.__dict__.pop("fingerprint", None)
        made.leaves_out_first = leave_out
        return made

    def how_read(self) -> dict[str, Any]:
        """What differs from a plain reading, with `auto` decided."""
        changes = self.reading.changes()
        if self.reading.sink != "add":
            changes.pop("sink", None)
        return changes | ({"sink": "leave_out"} if self.leaves_out_first else {})

    def unknown_tokens(self, encoded: Encoded) -> int:
        unknown = self.tokenizer.unk_token_id
        return sum(word >= 0 and token == unknown for token, word in zip(encoded.ids, encoded.word_of, strict=True))

    def weights_digest(self) -> str:
        """Hash of the weights that shape the layers."""
        return digest_chunks(chunk for pair in stored_tensors(self.model) for chunk in hash_tensors(dict([pair])))

    def encode(self, sentences: Sequence[Sentence], on_overflow: Overflow = "truncate") -> list[Encoded]:
        return list(align(self._encode, sentences, self.limit, on_overflow))

    @cached_property
    def _encode(self) -> Encode:
        plain: Encode = partial(encode_words, self.tokenizer)
        if self.reading.chat is not None:
            plain = partial(encode_chat, self.tokenizer, frame_of(self.tokenizer, self.reading.chat))
        if self.reading.sink != "add":
            return plain
        token = self.tokenizer.bos_token_id
        token = self.tokenizer.eos_token_id if token is None else token
        return lambda sentences: [with_sink(token, encoded) for encoded in plain(sentences)]

    @torch.inference_mode()
    def hidden_states(self, batch: Sequence[Encoded]) -> tuple[Tensor, ...]:
        return self._together_or_alone(self._states, batch)

    @torch.inference_mode()
    def attentions(self, batch: Sequence[Encoded]) -> tuple[Tensor, ...]:
        """Per block the attention (sentences, heads, queries, keys), by the eager implementation."""
        with self._eager():
            return self._together_or_alone(self._attentions, batch)

    @torch.inference_mode()
    def logits(self, batch: Sequence[Encoded]) -> Tensor:
        """The language-model head's scores (sentences, tokens, vocabulary)."""
        if self.head is None:
            raise ModelError(
                f"{self.name} was loaded without its language-model head", fix="load_model(..., head=True)"
            )
        return self._together_or_alone(self._logits, batch)[0]

    def summary_position(self, encoded: Encoded) -> int:
        cls = self.tokenizer.cls_token_id
        for position, (token, word) in enumerate(zip(encoded.ids, encoded.word_of, strict=True)):
            if token == cls and word == SPECIAL:
                return position
        return len(encoded.ids) - 1

    def inputs(
        self, batch: Sequence[Encoded], side: Literal["left", "right"] = "right", head: bool = False
    ) -> dict[str, Any]:
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
        self._check_vocabulary(int(ids.max()))
        inputs: dict[str, Any] = {"input_ids": ids.to(self.device), "attention_mask": mask.to(self.device)}
        if "token_type_ids" in self.tokenizer.model_input_names and "token_type_ids" in self._accepts:
            inputs["token_type_ids"] = types.to(self.device)
        if self._decoding or (head and self.config.is_encoder_decoder):
            shifted = torch.full_like(ids, self.config.decoder_start_token_id)
            shifted[:, 1:] = ids[:, :-1]
            inputs |= {"decoder_input_ids": shifted.to(self.device), "decoder_attention_mask": inputs["attention_mask"]}
        for memory in ("use_cache", "use_mems"):
            if memory in self._accepts:
                inputs[memory] = False
        return inputs

    @torch.inference_mode()
    def verify(self) -> None:
        """Compare two sentences, padded into one batch, with Hugging Face's own output of each alone.

        A model whose numbers depend on padding is from then on run sentence by sentence.
        """
        words = ("One", "or", "two", "words", ",", "then", "some", "more", "of", "them", ".")
        try:
            pair = self.encode([Sentence("short", words[:2]), Sentence("long", words)])
        except CorpusError:  # a limit of a few tokens
            return
        together = self._states(pair)
        for row, encoded in enumerate(pair):
            ids = torch.tensor([encoded.ids], device=self.device)
            given = {"input_ids": ids}
            if "token_type_ids" in self.inputs([encoded]):
                given["token_type_ids"] = torch.tensor([encoded.type_ids], device=self.device)
            if self._decoding:
                given["decoder_input_ids"] = self.inputs([encoded])["decoder_input_ids"]
            with self._active():
                output = self.model(**given, output_hidden_states=True)
            theirs = self._layers(output)
            compared = len(theirs) - (self.reading.final_norm != "as_is")
            for layer in range(compared):
                alone = theirs[layer][0]
                gap = float((together[layer][row, : len(encoded.ids)] - alone).abs().max())
                tolerance = TOLERANCE if alone.dtype == torch.float32 else 2e-2
                if not gap <= tolerance * max(1.0, float(alone.abs().max())):
                    self.alone = True

    def reset(self) -> None:
        """Nothing is remembered."""

    def describe(self) -> dict[str, Any]:
        """What study.lock.json keeps of a model."""
        return {
            "name": self.name,
            "fingerprint": self.fingerprint,
            "type": self.config.model_type,
            "layers": len(self.widths),
            "widths": list(self.widths),
            "limit": self.limit,
            "commit": getattr(self.config, "_commit_hash", None),
            **({"reading": how} if (how := self.how_read()) else {}),
        }

    def random_twin(self, seed: int = 1234) -> HuggingFaceEncoder:
        """The same architecture with freshly drawn weights: what training gave, taken away.

        Built from the configuration; calling `init_weights` on a loaded model can be a no-op.
        """
        from transformers import AutoModel

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            own_code = type(self.model).__module__.startswith("transformers_modules")  # it runs already
            drawn = AutoModel.from_config(self.config, dtype=torch.float32, trust_remote_code=own_code)
        twin = HuggingFaceEncoder(drawn, self.tokenizer, f"{self.name} (random twin)", self.device, self.reading)
        twin.alone = self.alone
        twin.leaves_out_first = self.leaves_out_first
        random = dict(twin.model.named_parameters())
        for name, weight in stored_tensors(self.model):
            if weight.ndim > 1 and name in random and torch.equal(weight, random[name].data.to(weight.dtype)):
                raise ModelError(
                    f"the random twin of {self.name} has the trained values in {name}",
                    fix="report this: a baseline that is not random would be wrong",
                )
        return twin

    @property
    def _decoding(self) -> bool:
        return bool(self.config.is_encoder_decoder) and self.reading.part == "decoder"

    def _forward(self, batch: Sequence[Encoded], **wanted: bool) -> Any:
        with self._active():
            return self.model(**self.inputs(batch), **wanted)

    @torch.inference_mode()
    def _states(self, batch: Sequence[Encoded]) -> tuple[Tensor, ...]:
        norm = None if self.reading.final_norm == "as_is" else self._final_norm
        with faster_linear(), watching({} if norm is None else {norm: self.stack.get_submodule(norm)}) as seen:
            output = self._forward(batch, output_hidden_states=True)
        found = self._layers(output)
        if norm is not None:
            found[-1] = seen[norm].input if self.reading.final_norm == "pre" else seen[norm].output
        return tuple(found)

    def _layers(self, output: Any) -> list[Tensor]:
        """The hidden states of the part that is read."""
        states = getattr(output, "decoder_hidden_states" if self._decoding else "hidden_states", None)
        if states is None:
            raise ModelError(f"{self.name} gives no hidden states", fix="choose another model")
        return [state[0] if isinstance(state, tuple) else state for state in states]

    def _attentions(self, batch: Sequence[Encoded]) -> tuple[Tensor, ...]:
        output = self._forward(batch, output_attentions=True)
        found = output.decoder_attentions if self._decoding else output.attentions
        if not found or found[0] is None:
            raise ModelError(f"{self.name} gives no attention weights", fix="choose another analysis or model")
        return tuple(found)

    def _logits(self, batch: Sequence[Encoded]) -> tuple[Tensor, ...]:
        assert self.head is not None
        with self._active():
            return (self.head(**self.inputs(batch, head=True)).logits,)

    def _together_or_alone(
        self, run: Callable[[Sequence[Encoded]], tuple[Tensor, ...]], batch: Sequence[Encoded]
    ) -> tuple[Tensor, ...]:
        if not self.alone or len(batch) == 1:
            return run(batch)
        singles = [run([encoded]) for encoded in batch]
        return tuple(_stack([found[layer][0] for found in singles]) for layer in range(len(singles[0])))

    @cached_property
    def _final_norm(self) -> str | None:
        blocks = len(self._layers(self._forward([_TWO_TOKENS], output_hidden_states=True))) - 1
        return final_norm(self.stack, blocks, lambda: self._forward([_TWO_TOKENS]))

    def _active(self) -> AbstractContextManager[Any]:
        """The state of the weights in which this encoder is read (adapters switch it)."""
        return nullcontext()

    @contextmanager
    def _eager(self) -> Iterator[None]:
        before = self.config._attn_implementation
        self.model.set_attn_implementation("eager")
        try:
            yield
        finally:
            self.model.set_attn_implementation(before)

    @cached_property
    def _accepts(self) -> frozenset[str]:
        return frozenset(inspect.signature(self.model.forward).parameters)

    def _check_vocabulary(self, largest: int) -> None:
        rows = self.model.get_input_embeddings().weight.shape[0]
        if largest >= rows:
            raise ModelError(
                f"{self.name}: the tokenizer gives token {largest}, but the model has {rows} embeddings",
                fix="use the tokenizer saved with these weights (a tuned model may have added tokens)",
            )


def part_of(model: PreTrainedModel, reading: Reading) -> PreTrainedModel:
    """The part of a backbone that is read: of an encoder-decoder, its encoder unless the decoder is asked for."""
    if model.config.is_encoder_decoder and reading.part == "encoder" and hasattr(model, "get_encoder"):
        return model.get_encoder()
    if reading.part == "decoder" and not model.config.is_encoder_decoder:
        raise ModelError(f"{type(model).__name__} is not an encoder-decoder", fix='leave part="decoder" out')
    return model


def _stack(rows: Sequence[Tensor]) -> Tensor:
    """Tensors of several sizes as one, filled up with zeros at their ends."""
    sizes = [max(lengths) for lengths in zip(*(row.shape for row in rows), strict=True)]
    stacked = rows[0].new_zeros(len(rows), *sizes)
    for target, row in zip(stacked, rows, strict=True):
        target[tuple(map(slice, row.shape))] = row
    return stacked


def _entrance(model: PreTrainedModel) -> torch.device:
    """Where a placed model takes its input: weights on disk have no device, accelerate moves the input for them."""
    return model.device if model.device.type != "meta" else torch.device("cpu")
