"""How a model is read: the choices that change its numbers without touching its weights."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from vestige.errors import ModelError


@dataclass(frozen=True)
class Reading:
    """Defaults give Hugging Face's own `hidden_states` of the sentence as the tokenizer encodes it."""

    final_norm: Literal["as_is", "pre", "post"] = "as_is"
    """The top layer of models with a norm after their last block (decoders, T5, ModernBERT): as
    Hugging Face returns it, before that norm (like all other layers), or after it."""
    sink: Literal["auto", "leave_out", "add", "keep"] = "auto"
    """The attention sink. In trained decoders the first token draws the attention and grows a hidden state up to 170
    times as long as the others', much the same whatever the token is. Where the tokenizer puts no token of its
    own first, that is the first word's.

    `leave_out`: no word and no sentence vector is made of the hidden state of the first token; a first word of one
    token has none, and is counted. `auto` does so where the model has a sink (see vestige.models.encoders.sink), and
    else nothing. `add` puts the tokenizer's BOS, else its EOS, before the sentence where it puts none; it belongs
    to no word and no sentence mean. `keep`: every token counts.

    Why `leave_out` by default: on SmolLM2-135M both give the other words the same accuracy (layer 15, XPOS: 93.4 and
    93.5), but with a BOS the first word still is a second sink in 3 to 8 % of the sentences, and hidden states
    are no longer those of the sentence as the model's own tokenizer encodes it."""
    chat: str | None = None
    """Wrap the sentence into the tokenizer's chat template as a message of this role ("user")."""
    part: Literal["encoder", "decoder"] = "encoder"
    """Of encoder-decoders. The decoder reads the same tokens, shifted right, as the families'
    own sequence classifiers do: its state at a token has seen the whole source and the tokens before."""

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self)).items():
            value = getattr(self, name)
            if get_origin(kind) is Literal and value not in get_args(kind):
                raise ModelError(f"{name} is {value!r}", fix=f"choose from {', '.join(get_args(kind))}")

    def changes(self) -> dict[str, Any]:
        """What differs from the defaults."""
        return {f.name: value for f in fields(self) if (value := asdict(self)[f.name]) != f.default}


AS_IS = Reading()
