"""Tiny models of every family, from configurations, with real fast tokenizers trained on a little text.

`initializer_range` is 0.3: at the usual 0.02 attention is nearly uniform and a test of it proves
nothing. These models test arithmetic, never findings.
"""

from functools import cache
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AlbertConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    BertConfig,
    GPT2Config,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    XLNetConfig,
)

TEXT = """The quick brown fox didn't jump over the lazy dog , did it ?
A museum in Ostermark opened its doors at 9.30 a.m. and nobody came .
She can't remember whether unbelievable stories were internationalised .
Please bring three buckets of well-mixed paint and wash your hands afterwards !
When the river froze , children skated to school ; their teachers walked .
Prices rose by 4.5 % , which economists had neither predicted nor understood .""".splitlines()

FAMILIES = ("bert", "roberta", "albert", "xlnet", "gpt2")
ENCODERS = FAMILIES[:4]


def _fast(tokenizer: Tokenizer, **special: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def _bert_tokenizer() -> PreTrainedTokenizerFast:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    raw = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    raw.normalizer = normalizers.BertNormalizer(lowercase=True)
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    raw.train_from_iterator(TEXT, trainers.WordPieceTrainer(vocab_size=160, special_tokens=special))
    raw.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return _fast(
        raw, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip


def _byte_bpe(special: list[str]) -> Tokenizer:
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=special, initial_alphabet=alphabet)
    raw.train_from_iterator(TEXT, trainer)
    return raw


def _roberta_tokenizer() -> PreTrainedTokenizerFast:
    raw = _byte_bpe(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    raw.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return _fast(
        raw, bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>", pad_token="<pad>",
        unk_token="<unk>", mask_token="<mask>", model_input_names=["input_ids", "attention_mask"],
    )  # fmt: skip


def _unigram(special: list[str], unknown: str) -> Tokenizer:
    raw = Tokenizer(models.Unigram())
    raw.normalizer = normalizers.NFKC()
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=140, special_tokens=special, unk_token=unknown)
    raw.train_from_iterator(TEXT, trainer)
    return raw


def _albert_tokenizer() -> PreTrainedTokenizerFast:
    raw = _unigram(["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"], "<unk>")
    raw.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return _fast(
        raw, pad_token="<pad>", unk_token="<unk>", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip


def _xlnet_tokenizer() -> PreTrainedTokenizerFast:
    raw = _unigram(["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>"], "<unk>")
    raw.post_processor = processors.TemplateProcessing(
        single="$A:0 <sep>:0 <cls>:2",
        pair="$A:0 <sep>:0 $B:1 <sep>:1 <cls>:2",
        special_tokens=[("<sep>", 4), ("<cls>", 3)],
    )
    return _fast(
        raw, bos_token="<s>", eos_token="</s>", unk_token="<unk>", cls_token="<cls>", sep_token="<sep>",
        pad_token="<pad>", mask_token="<mask>", padding_side="left", pad_token_type_id=3,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip


def _gpt2_tokenizer() -> PreTrainedTokenizerFast:
    raw = _byte_bpe(["<|endoftext|>"])
    raw.post_processor = processors.ByteLevel(trim_offsets=False)
    return _fast(raw, bos_token="<|endoftext|>", eos_token="<|endoftext|>", unk_token="<|endoftext|>",
                 model_input_names=["input_ids", "attention_mask"])  # fmt: skip


TOKENIZERS = {
    "bert": _bert_tokenizer,
    "roberta": _roberta_tokenizer,
    "albert": _albert_tokenizer,
    "xlnet": _xlnet_tokenizer,
    "gpt2": _gpt2_tokenizer,
}


@cache
def tokenizer(family: str) -> PreTrainedTokenizerFast:
    return TOKENIZERS[family]()


def config(family: str, layers: int = 3, width: int = 32):
    vocabulary = len(tokenizer(family))
    same = {"vocab_size": vocabulary, "initializer_range": 0.3}
    shape = {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "intermediate_size": 48,
    }
    match family:
        case "bert":
            return BertConfig(**same, **shape, max_position_embeddings=64, pad_token_id=0)
        case "roberta":
            return RobertaConfig(**same, **shape, max_position_embeddings=66, type_vocab_size=1, pad_token_id=1)
        case "albert":
            return AlbertConfig(**same, **shape, embedding_size=16, max_position_embeddings=64, pad_token_id=0)
        case "xlnet":
            return XLNetConfig(**same, d_model=width, n_layer=layers, n_head=4, d_inner=48, pad_token_id=5)
        case "gpt2":
            return GPT2Config(**same, n_embd=width, n_layer=layers, n_head=4, n_positions=64)
    raise ValueError(family)


def model(family: str, seed: int = 0, layers: int = 3, classes: int = 0) -> PreTrainedModel:
    """A tiny random model; with `classes`, one with a classification head on it."""
    torch.manual_seed(seed)
    made = config(family, layers)
    if classes:
        made.num_labels = classes
        return AutoModelForSequenceClassification.from_config(made).eval()
    return AutoModel.from_config(made).eval()


def save(family: str, folder: Path, **options) -> Path:
    """A tiny model and its tokenizer as an ordinary Hugging Face folder."""
    model(family, **options).save_pretrained(folder)
    tokenizer(family).save_pretrained(folder)
    return folder
