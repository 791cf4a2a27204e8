"""Fit the masked-language-model head that vestige ships for MiniLM, and keep a record of it.

    VESTIGE_DATA=... python benchmarks/minilm_head.py [--steps 800]

The encoder's weights do not move. The text is the validation part of WikiText-2 (its last tenth is held out) and the
training parts of UD English EWT and CoNLL-2000; no test part of any corpus and nothing of WikiText-2's
test part is read. The record has the perplexity of masked tokens on what was held out, the unigram baseline beside it
(tokens told by how often they occur in the text that was trained on), data, steps and seed.
"""

import argparse
import json
import math
import os
from dataclasses import asdict
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch

from vestige.corpus.load import load_corpus
from vestige.corpus.types import Sentence
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.files.load import load_model
from vestige.models.lm.head import SHIPPED, HeadRecipe, LMHead, embeddings_digest, fit_head
from vestige.models.lm.language_model import last_state
from vestige.models.lm.likelihood import likelihoods
from vestige.models.tokens.masking import mask_randomly, text_blocks

FILES = {
    "WikiText-2, validation part without its last tenth": ("wikitext2/valid.txt", "text"),
    "UD English EWT, train": ("ud_ewt/en_ewt-ud-train.conllu", None),
    "CoNLL-2000, train": ("conll2000/train.txt", "conll2000"),
}


def main() -> None:
    """Fit, measure, keep."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--steps", type=int, default=800)
    given = arguments.parse_args()
    torch.set_num_threads(1)
    encoder = load_model("minilm")
    texts, held = _texts(Path(os.environ["VESTIGE_DATA"]))
    recipe = HeadRecipe(steps=given.steps, learning_rate=2e-3)
    fitted = fit_head(encoder, [sentence for some in texts.values() for sentence in some], recipe)
    target = SHIPPED / "minilm.safetensors"
    fitted.head.save(target)
    kept = LMHead.load(target, encoder.model.get_input_embeddings().weight)
    record = {
        "model": "minilm",
        "embeddings": embeddings_digest(encoder),
        "text": {name: sum(len(s.words) for s in some) for name, some in texts.items()},
        "recipe": asdict(recipe),
        "held_out": {"what": "last tenth of the validation part of WikiText-2", **_measure(encoder, kept, texts, held)},
    }
    target.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record["held_out"]))


def _texts(root: Path) -> tuple[dict[str, list[Sentence]], list[Sentence]]:
    texts = {
        name: list(load_corpus({"train": root / path}, format=format)["train"])
        for name, (path, format) in FILES.items()
    }
    wiki = texts[next(iter(FILES))]
    cut = len(wiki) * 9 // 10
    texts[next(iter(FILES))] = wiki[:cut]
    return texts, wiki[cut:]


def _measure(
    encoder: HuggingFaceEncoder, head: LMHead, texts: dict[str, list[Sentence]], held: list[Sentence]
) -> dict[str, float]:
    blocks = text_blocks(encoder, held, 128)
    size, mask = encoder.tokenizer.vocab_size, encoder.tokenizer.mask_token_id
    clozes = list(mask_randomly(blocks, mask, size, 0.15, 0))
    found = likelihoods(encoder, clozes, len(blocks), "masked", lambda batch: [last_state(encoder, batch)], [head])
    counts = np.zeros(len(encoder.model.get_input_embeddings().weight))
    for some in texts.values():
        for block in text_blocks(encoder, some, 128):
            words = [token for token, word in zip(block.ids, block.word_of, strict=True) if word >= 0]
            np.add.at(counts, np.array(words), 1)
    frequency = (counts + 0.1) / (counts + 0.1).sum()
    asked = [token for cloze in clozes for token in cloze.answers]
    unigram = float(-np.log(frequency[asked]).mean())
    tokens = int(found.tokens.sum())
    return {"tokens": tokens, "perplexity": math.exp(found.losses[0]), "unigram_perplexity": math.exp(unigram)}


if __name__ == "__main__":
    main()
