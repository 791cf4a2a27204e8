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
    sink: bool = False
    """Put the tokenizer's first special token (BOS, else EOS) before the sentence where it puts none.

    In decoders the first token draws attention and grows a huge norm; without this it is the
    first word. The added token belongs to no word and no sentence mean."""
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
