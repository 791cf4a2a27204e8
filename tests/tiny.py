"""Tiny models of every family, from configurations, with real fast tokenizers trained on a little text.

The pieces of WordPiece and Unigram are kept in trained_pieces.json: trained anew they would differ from one
process to the next, and with them what a test sees.

`initializer_range` is 0.3: at the usual 0.02 attention is nearly uniform and a test of it proves
nothing. These models test arithmetic, never findings.
"""

import json
from functools import cache
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AlbertConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    BartConfig,
    BertConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    GPT2Config,
    LlamaConfig,
    ModernBertConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    RobertaConfig,
    T5Config,
    XLNetConfig,
)

TEXT = """The quick brown fox didn't jump over the lazy dog , did it ?
A museum in Ostermark opened its doors at 9.30 a.m. and nobody came .
She can't remember whether unbelievable stories were internationalised .
Please bring three buckets of well-mixed paint and wash your hands afterwards !
When the river froze , children skated to school ; their teachers walked .
Prices rose by 4.5 % , which economists had neither predicted nor understood .""".splitlines()

TRAINED = json.loads((Path(__file__).parent / "trained_pieces.json").read_text())

ENCODERS = ("bert", "roberta", "albert", "xlnet")
DECODERS = ("gpt2", "llama", "qwen")
FAMILIES = (*ENCODERS, "distilbert", "electra", "deberta", "modernbert", *DECODERS, "t5", "bart")
BYTE_LEVEL = ("roberta", "modernbert", "gpt2", "qwen", "bart")
LOWERCASING = ("bert", "distilbert", "electra")
SUMMARY_LAST = ("xlnet", *DECODERS, "t5")
"""The last token stands for the sentence; elsewhere the first one, the tokenizer's CLS."""


def _fast(tokenizer: Tokenizer, **special: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def _bert_tokenizer() -> PreTrainedTokenizerFast:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    numbered = {piece: number for number, piece in enumerate([*special, *TRAINED["wordpiece"]])}
    raw = Tokenizer(models.WordPiece(numbered, unk_token="[UNK]"))
    raw.normalizer = normalizers.BertNormalizer(lowercase=True)
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    raw.add_special_tokens(special)
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
    pieces = [(piece, 0.0) for piece in special] + [(piece, score) for piece, score in TRAINED["unigram"]]
    raw = Tokenizer(models.Unigram(pieces, unk_id=special.index(unknown)))
    raw.normalizer = normalizers.NFKC()
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    raw.add_special_tokens(special)
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


def _distilbert_tokenizer() -> PreTrainedTokenizerFast:
    made = _bert_tokenizer()
    made.model_input_names = ["input_ids", "attention_mask"]
    return made


def _modernbert_tokenizer() -> PreTrainedTokenizerFast:
    raw = _byte_bpe(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    raw.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return _fast(
        raw, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]",
        model_input_names=["input_ids", "attention_mask"],
    )  # fmt: skip


def _llama_tokenizer() -> PreTrainedTokenizerFast:
    """SentencePiece's BPE as Llama 2 has it: spaces become ▁, unknown characters become bytes, <s> goes first."""
    special = ["<unk>", "<s>", "</s>"]
    raw = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    bytes_ = [f"<0x{value:02X}>" for value in range(256)]
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    raw.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=420, special_tokens=special + bytes_))
    raw.pre_tokenizer = None
    raw.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    raw.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    return _fast(raw, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
                 model_input_names=["input_ids", "attention_mask"])  # fmt: skip


CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
)


def _with_empty_affixes(trained: Tokenizer) -> models.BPE:
    """The same BPE model, written as transformers writes it when it reads the tokenizer again."""
    said = json.loads(trained.to_str())["model"]
    merges = [tuple(merge) for merge in said["merges"]]
    return models.BPE(said["vocab"], merges, continuing_subword_prefix="", end_of_word_suffix="")


def _qwen_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE behind a pattern of its own, no special tokens around a text, a chat template."""
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    raw = Tokenizer(models.BPE())
    raw.normalizer = normalizers.NFC()
    pattern = Regex(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    raw.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(pattern, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    raw.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=special, initial_alphabet=alphabet)
    raw.train_from_iterator(TEXT, trainer)
    raw.model = _with_empty_affixes(raw)
    made = _fast(raw, eos_token="<|im_end|>", pad_token="<|endoftext|>",
                 model_input_names=["input_ids", "attention_mask"])  # fmt: skip
    made.chat_template = CHATML
    return made


def _t5_tokenizer() -> PreTrainedTokenizerFast:
    raw = _unigram(["<pad>", "</s>", "<unk>"], "<unk>")
    raw.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return _fast(raw, pad_token="<pad>", eos_token="</s>", unk_token="<unk>",
                 model_input_names=["input_ids", "attention_mask"])  # fmt: skip


TOKENIZERS = {
    "bert": _bert_tokenizer,
    "roberta": _roberta_tokenizer,
    "albert": _albert_tokenizer,
    "xlnet": _xlnet_tokenizer,
    "distilbert": _distilbert_tokenizer,
    "electra": _bert_tokenizer,
    "deberta": _albert_tokenizer,
    "modernbert": _modernbert_tokenizer,
    "gpt2": _gpt2_tokenizer,
    "llama": _llama_tokenizer,
    "qwen": _qwen_tokenizer,
    "t5": _t5_tokenizer,
    "bart": _roberta_tokenizer,
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
        case "distilbert":
            return DistilBertConfig(
                **same, dim=width, n_layers=layers, n_heads=4, hidden_dim=48, max_position_embeddings=64, pad_token_id=0
            )
        case "electra":
            return ElectraConfig(**same, **shape, embedding_size=16, max_position_embeddings=64, pad_token_id=0)
        case "deberta":  # version 3's settings
            return DebertaV2Config(
                **same, **shape, max_position_embeddings=64, type_vocab_size=0, pad_token_id=0, relative_attention=True,
                pos_att_type=["p2c", "c2p"], position_buckets=8, norm_rel_ebd="layer_norm", share_att_key=True,
                position_biased_input=False,
            )  # fmt: skip
        case "modernbert":
            return ModernBertConfig(
                **same, **shape, max_position_embeddings=64, pad_token_id=0, cls_token_id=2, sep_token_id=3,
                bos_token_id=2, eos_token_id=3, local_attention=8,
            )  # fmt: skip
        case "gpt2":
            return GPT2Config(**same, n_embd=width, n_layer=layers, n_head=4, n_positions=64)
        case "llama":
            return LlamaConfig(**same, **shape, num_key_value_heads=2, max_position_embeddings=64)
        case "qwen":
            return Qwen2Config(**same, **shape, num_key_value_heads=2, max_position_embeddings=64)
        case "t5":
            return T5Config(
                vocab_size=vocabulary, d_model=width, d_kv=8, d_ff=48, num_layers=layers, num_heads=4,
                pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
            )  # fmt: skip
        case "bart":
            return BartConfig(
                vocab_size=vocabulary, d_model=width, encoder_layers=layers, decoder_layers=layers,
                encoder_ffn_dim=48, decoder_ffn_dim=48, encoder_attention_heads=4, decoder_attention_heads=4,
                max_position_embeddings=64, init_std=0.3, bos_token_id=0, pad_token_id=1, eos_token_id=2,
                decoder_start_token_id=2,
            )  # fmt: skip
    raise ValueError(family)


def model(family: str, seed: int = 0, layers: int = 3, classes: int = 0) -> PreTrainedModel:
    """A tiny random model; with `classes`, one with a classification head on it."""
    torch.manual_seed(seed)
    made = config(family, layers)
    if classes:
        made.num_labels = classes
        return AutoModelForSequenceClassification.from_config(made).eval()
    return AutoModel.from_config(made).eval()


def stack(family: str) -> PreTrainedModel:
    """The tiny model itself; of an encoder-decoder, its encoder."""
    made = model(family)
    return made.get_encoder() if made.config.is_encoder_decoder else made


def save(family: str, folder: Path, **options) -> Path:
    """A tiny model and its tokenizer as an ordinary Hugging Face folder."""
    model(family, **options).save_pretrained(folder)
    tokenizer(family).save_pretrained(folder)
    return folder
