"""One small tokenizer of every kind, its vocabulary written out: what it makes of a word is known.

Special tokens are BERT's throughout: [CLS] words [SEP], and for pairs [CLS] words [SEP] words [SEP].
"""

from collections.abc import Sequence

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

CONTROL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]

WORD_PIECES = """the dog nora ' s ket ##tle didn t boil . un ##believ ##able well - mix ##ed a m why ? ! caf ##e
    你 in ##ing # [ ] / < > sep 10 000"""
BYTE_PIECES = "Ġthe Ġdog ĠNora 's Ġket tle Ġdidn 't Ġboil Ġun believ able Ġwell mix ed Ġa ĠWhy ?!"
UNIGRAM_PIECES = """▁ ▁the ▁dog ▁nora ' s ▁ket tle ▁didn t ▁boil . ▁un believ able ▁well - mix ed ▁a m ▁why ? !
    ▁caf e ▁你 ing"""


def _finished(raw: Tokenizer) -> PreTrainedTokenizerFast:
    raw.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )


def _numbered(pieces: Sequence[str]) -> dict[str, int]:
    return {piece: number for number, piece in enumerate(dict.fromkeys([*CONTROL, *pieces]))}


def _merges(pieces: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """Every piece put together from the left, symbol by symbol."""
    return list(dict.fromkeys(("".join(piece[:n]), piece[n]) for piece in pieces for n in range(1, len(piece))))


def _wordpiece() -> PreTrainedTokenizerFast:
    raw = Tokenizer(models.WordPiece(_numbered(WORD_PIECES.split()), unk_token="[UNK]"))
    raw.normalizer = normalizers.BertNormalizer(lowercase=True)
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return _finished(raw)


def _suffix_bpe() -> PreTrainedTokenizerFast:
    """The end of a word is marked, not its start (the first GPT)."""
    whole = ["the", "dog", "nora", "tle", "boil", "able", "well", "ed", "why"]
    parts = ["ket", "didn", "un", "believ", "mix"]
    symbols = [[*word[:-1], f"{word[-1]}</w>"] for word in (*whole, "didn")] + [list(part) for part in parts]
    letters = "abcdefghijklmnopqrstuvwxyz'.-?!"
    merges = _merges(symbols)
    raw = Tokenizer(
        models.BPE(
            _numbered([*letters, *(f"{c}</w>" for c in letters), *(a + b for a, b in merges)]), merges,
            unk_token="[UNK]", end_of_word_suffix="</w>",
        )
    )  # fmt: skip
    raw.normalizer = normalizers.BertNormalizer(lowercase=True)
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return _finished(raw)


def _byte_bpe_model() -> Tokenizer:
    merges = _merges(BYTE_PIECES.split())
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return Tokenizer(models.BPE(_numbered([*alphabet, *(a + b for a, b in merges)]), merges))


def _byte_bpe() -> PreTrainedTokenizerFast:
    raw = _byte_bpe_model()
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return _finished(raw)


def _split_byte_bpe() -> PreTrainedTokenizerFast:
    """Byte-level behind a splitter of its own (Llama 3, Qwen), which has no flag for a first space."""
    raw = _byte_bpe_model()
    pattern = Regex(r"'[st]| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+")
    split = pre_tokenizers.Split(pattern, "isolated")
    raw.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    return _finished(raw)


def _unigram() -> PreTrainedTokenizerFast:
    """SentencePiece with ALBERT's normalisation; all pieces cost the same, so the fewest win."""
    raw = Tokenizer(models.Unigram([(piece, -1.0) for piece in (*CONTROL, *UNIGRAM_PIECES.split())], unk_id=1))
    raw.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()])
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    return _finished(raw)


KINDS = {
    "wordpiece": _wordpiece,
    "suffix_bpe": _suffix_bpe,
    "byte_bpe": _byte_bpe,
    "split_byte_bpe": _split_byte_bpe,
    "unigram": _unigram,
}
