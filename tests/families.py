"""What vestige can do with each family of models: one function per column of docs/families.md.

`tests/oracle/test_families.py` holds every cell; `python tests/families.py docs/families.md`
writes the table from a fresh run. Families are tiny models from configurations, with real fast
tokenizers; `minilm` is the embedded default.
"""

import os
import sys
import tempfile
import warnings
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

import tiny
import torch
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    PreTrainedModel,
)

from vestige.corpus.load import load_corpus
from vestige.corpus.types import Sentence
from vestige.models.encoders.huggingface import TOLERANCE, HuggingFaceEncoder
from vestige.models.files.load import load_model, load_tokenizer
from vestige.models.files.sources import minilm_folder
from vestige.models.surgery.blocks import keep_blocks
from vestige.models.tokens.align import align, encode_words

MINILM = "minilm"
ROWS = (MINILM, *tiny.FAMILIES, "t5 decoder", "bart decoder")
TITLES = {
    "minilm": "BERT (MiniLM, trained)",
    "bert": "BERT",
    "roberta": "RoBERTa",
    "albert": "ALBERT",
    "xlnet": "XLNet",
    "distilbert": "DistilBERT",
    "electra": "ELECTRA",
    "deberta": "DeBERTa-v2/v3",
    "modernbert": "ModernBERT",
    "gpt2": "GPT-2",
    "llama": "Llama",
    "qwen": "Qwen2",
    "t5": "T5, encoder",
    "bart": "BART, encoder",
    "t5 decoder": "T5, decoder",
    "bart decoder": "BART, decoder",
}
KINDS = {"t5": AutoModelForSeq2SeqLM, "bart": AutoModelForSeq2SeqLM} | dict.fromkeys(
    ("xlnet", *tiny.DECODERS), AutoModelForCausalLM
)


def family(row: str) -> str:
    """The tiny family of a row ("t5 decoder" is read from the same model as "t5")."""
    return row.partition(" ")[0]


def reading(row: str) -> dict[str, str]:
    """How the row is read."""
    return {"part": "decoder"} if row.endswith("decoder") else {}


@cache
def encoder(row: str) -> HuggingFaceEncoder:
    """The row's model as vestige reads it."""
    if row == MINILM:
        return load_model(MINILM)
    return load_model(tiny.model(family(row)), tokenizer=tiny.tokenizer(family(row)), **reading(row))


@cache
def their_model(row: str) -> PreTrainedModel:
    """The same model, as transformers alone has it."""
    if row == MINILM:
        return AutoModel.from_pretrained(minilm_folder(), dtype=torch.float32).eval()
    return tiny.model(family(row))


@torch.no_grad()
def hidden_state_gap(row: str, sentences: Sequence[Sentence]) -> float:
    """Largest distance of a padded batch from transformers' output of each sentence alone, per max(1, layer's largest)."""
    mine = encoder(row)
    model, decoding = their_model(row), row.endswith("decoder")
    if model.config.is_encoder_decoder and not decoding:
        model = model.get_encoder()
    encoded = mine.encode(sentences)
    together = mine.hidden_states(encoded)
    worst = 0.0
    for number, sentence in enumerate(sentences):
        kept = encoded[number].kept
        inputs = mine.tokenizer(list(sentence.words[:kept]), is_split_into_words=True, return_tensors="pt")
        if decoding:
            start = torch.tensor([[model.config.decoder_start_token_id]])
            inputs["decoder_input_ids"] = torch.cat([start, inputs["input_ids"][:, :-1]], dim=1)
        output = model(**inputs, output_hidden_states=True)
        states = output.decoder_hidden_states if decoding else output.hidden_states
        for layer, state in enumerate(states):
            gap = (together[layer][number, : state.shape[1]] - state[0]).abs().max() / max(
                1.0, float(state.abs().max())
            )
            worst = max(worst, float(gap))
    return worst


def words_covered(row: str, sentences: Sequence[Sentence]) -> tuple[int, int]:
    """Words that have a token of their own, and all words, with no limit of length."""
    encoded = list(align(partial(encode_words, encoder(row).tokenizer), sentences))
    words = sum(len(sentence.words) for sentence in sentences)
    return words - sum(len(sentence.vanished) for sentence in encoded), words


@torch.no_grad()
def attention(row: str, sentences: Sequence[Sentence]) -> bool:
    """Whether every block gives weights that sum to one over the sentence's own tokens."""
    mine = encoder(row)
    encoded = mine.encode(sentences)
    found = mine.attentions(encoded)
    if len(found) != mine.depth:
        return False
    for block in found:
        for number, sentence in enumerate(encoded):
            length = len(sentence.ids)
            sums = block[number, :, :length, :length].sum(-1)
            if not torch.allclose(sums, torch.ones_like(sums), atol=1e-5):
                return False
    return True


@torch.no_grad()
def logits(row: str, sentences: Sequence[Sentence]) -> bool:
    """Whether a model saved with its language-model head gives that head's own scores."""
    if row == MINILM:
        return False
    torch.manual_seed(0)
    whole = KINDS.get(family(row), AutoModelForMaskedLM).from_config(tiny.config(family(row))).eval()
    mine = load_model(whole, tokenizer=tiny.tokenizer(family(row)), head=True)
    encoded = mine.encode(sentences)
    found = mine.logits(encoded)
    for number, sentence in enumerate(encoded):
        ids = torch.tensor([sentence.ids])
        inputs = {"input_ids": ids, "token_type_ids": torch.tensor([sentence.type_ids])}
        if "token_type_ids" not in mine.inputs([sentence]):
            del inputs["token_type_ids"]
        if whole.config.is_encoder_decoder:
            start = torch.tensor([[whole.config.decoder_start_token_id]])
            inputs["decoder_input_ids"] = torch.cat([start, ids[:, :-1]], dim=1)
        alone = whole(**inputs).logits[0]
        if (found[number, : len(sentence.ids)] - alone).abs().max() > TOLERANCE * max(1.0, float(alone.abs().max())):
            return False
    return True


def adapters(row: str, sentences: Sequence[Sentence]) -> bool:
    """Whether a LoRA adapter gives the merged model, and switched off the base, bit for bit."""
    with tempfile.TemporaryDirectory() as place:
        base = minilm_folder() if row == MINILM else tiny.save(family(row), Path(place) / "base")
        model = AutoModel.from_pretrained(base, dtype=torch.float32).eval()
        torch.manual_seed(1)
        tuned = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False))
        tuned.save_pretrained(Path(place) / "adapter")
        on = load_model(Path(place) / "adapter", base=base, **reading(row))
        off, plain = on.without_adapter(), load_model(base, **reading(row))
        merged = load_model(tuned.merge_and_unload(), tokenizer=load_tokenizer(base), **reading(row))
    encoded = plain.encode(sentences)
    switched, base_states = off.hidden_states(encoded), plain.hidden_states(encoded)
    same = all(torch.equal(a, b) for a, b in zip(switched, base_states, strict=True))
    pairs = list(zip(on.hidden_states(encoded), merged.hidden_states(encoded), base_states, strict=True))
    equal = all((a - b).abs().max() <= 10 * TOLERANCE * max(1.0, float(b.abs().max())) for a, b, _ in pairs)
    moved = bool((pairs[-1][0] - pairs[-1][2]).abs().max() > 0.1)
    return same and equal and moved and off.fingerprint == plain.fingerprint != on.fingerprint


def surgery(row: str, sentences: Sequence[Sentence]) -> bool:
    """Whether a model cut down to its first k blocks has the layers 0 to k of the whole one."""
    source = minilm_folder() if row == MINILM else tiny.model(family(row))
    tokenizer = None if row == MINILM else tiny.tokenizer(family(row))
    whole = load_model(source, tokenizer=tokenizer, final_norm="pre", **reading(row))
    encoded = whole.encode(sentences)
    layers = whole.hidden_states(encoded)
    for count in range(1, whole.depth + 1):
        cut = keep_blocks(whole, range(count)).hidden_states(encoded)
        if len(cut) != count + 1 or not all(torch.equal(a, b) for a, b in zip(cut, layers, strict=False)):
            return False
    return True


CAPABILITIES = {"attention": attention, "logits": logits, "adapters": adapters, "surgery": surgery}
EXCEPTIONS = {(MINILM, "logits"): "no head in its files"}
"""Cells that are not a yes, and why."""


def mixed_lengths(sentences: Sequence[Sentence], count: int = 16) -> list[Sentence]:
    """Sentences from the shortest to the longest of up to 30 words, evenly."""
    some = sorted((s for s in sentences if len(s.words) <= 30), key=lambda s: (len(s.words), s.id))
    return [some[(len(some) - 1) * number // (count - 1)] for number in range(count)]


def write_table(path: Path) -> None:
    """Run every cell on UD English EWT and write the table."""
    test = load_corpus("ud_ewt")["test"]
    some = mixed_lengths(test)
    lines = []
    for row in ROWS:
        gap = hidden_state_gap(row, some)
        covered, words = words_covered(row, test)
        cells = [
            EXCEPTIONS.get((row, name)) or ("yes" if check(row, some) else "NO") for name, check in CAPABILITIES.items()
        ]
        lines.append(" | ".join((TITLES[row], f"{gap:.0e}", f"{covered:,} of {words:,}", *cells)))
        print(lines[-1], flush=True)
    lines += _character_models(test)
    path.write_text(
        _PAGE.format(rows="\n".join(f"| {line} |" for line in lines), tolerance=TOLERANCE), encoding="utf-8"
    )


def _character_models(test: Sequence[Sentence]) -> list[str]:
    root = Path(os.environ["VESTIGE_DATA"])
    lines = []
    for title, source in (
        ("ELMo", root / "elmo_fixture"),
        ("Transformer-ELMo", root / "telmo_fixture" / "model.tar.gz"),
    ):
        mine = load_model(source)
        some = mine.encode(mixed_lengths(test))
        together = mine.hidden_states(some)
        gap = max(
            float((layer[number, : len(one.ids)] - alone[0]).abs().max()) / max(1.0, float(alone.abs().max()))
            for number, one in enumerate(some)
            for layer, alone in zip(together, mine.hidden_states([one]), strict=True)
        )
        covered = sum(len(set(one.word_of)) for one in mine.encode(test))
        words = sum(len(sentence.words) for sentence in test)
        lines.append(f"{title} | {gap:.0e} (¹) | {covered:,} of {words:,} | – | – | – | –")
        print(lines[-1], flush=True)
    return lines


_PAGE = """# Families of models

Any Hugging Face model with a fast tokenizer is read by what it can do; there is no list of names. This table is what
was measured for the families people use, with tiny models made from their configurations (random weights of standard
deviation 0.3, three blocks) and fast tokenizers of each family's kind, and with the embedded default model.
Written by `python tests/families.py docs/families.md`; `make test` holds every cell.

| family | hidden states: largest distance from transformers' | words of EWT test with a token | attention | logits | adapters | surgery |
|---|---|---|---|---|---|---|
{rows}

- **Hidden states**: 16 sentences of 1 to 30 words run as one padded batch, every layer, against `output_hidden_states`
  of the sentence run alone; relative to max(1, the layer's largest value). The tolerance is {tolerance:g}; every model is
  also checked this way when it is loaded, and one that padding changes is run sentence by sentence.
- **Words with a token**: UD English EWT, test; words of which a tokenizer makes nothing are counted and reported.
- **Attention**: weights of every block, summing to one over the sentence's own tokens.
- **Logits**: the language-model head's scores, equal to transformers' own.
- **Adapters**: LoRA loaded from its folder: switched on it equals the merged model (within ten tolerances: merging
  itself rounds), switched off the base bit for bit, from one load.
- **Surgery**: cut to its first k blocks, the model has layers 0 to k of the whole one, bit for bit.
- A decoder of an encoder-decoder reads the same tokens, shifted right (`part="decoder"`).
- (¹) padded batch against the sentence alone: transformers has no such model. AllenNLP's published arrays for ELMo are
  met to 1e-5 in `tests/oracle/test_elmo.py`; for Transformer-ELMo none are published.
"""


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    write_table(Path(sys.argv[1]))
