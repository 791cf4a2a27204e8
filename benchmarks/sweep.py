"""Perplexity with the last r layers replaced, r = 0 to all: shared beginnings run once, beside every model by itself.

    python benchmarks/sweep.py [--blocks 24] [--repeats 3] [--out benchmarks/results]

MiniLM tuned for an epoch on the opinions that come with vestige, below the head that comes with vestige, asked for
the masked tokens of the validation part of WikiText-2 (VESTIGE_DATA must hold wikitext2). The other side builds
the seven models by `replace_blocks` beforehand and runs each from its embeddings to its last layer. Both compute the
head at masked positions only; what that saves is measured apart, on the states of one model. CPU seconds of one
process and one thread, the least of the repeats.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch

from vestige.corpus.load import load_corpus
from vestige.finetune.recipe import load_recipe
from vestige.finetune.train import finetune
from vestige.models.files.load import load_model
from vestige.models.lm.head import choose_head
from vestige.models.lm.language_model import asked_states, cloze_inputs, last_state, log_probabilities
from vestige.models.lm.likelihood import Likelihoods, Run, likelihoods
from vestige.models.surgery.blocks import replace_blocks
from vestige.models.surgery.mixing import Mixer
from vestige.models.tokens.masking import mask_randomly, text_blocks


def least(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The least CPU seconds of the work, and what it returned."""
    spent, found = float("inf"), None
    for _ in range(repeats):
        start = time.process_time()
        found = work()
        spent = min(spent, time.process_time() - start)
    return spent, found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--blocks", type=int, default=24, help="blocks of 512 tokens")
    arguments.add_argument("--repeats", type=int, default=3)
    arguments.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = arguments.parse_args()
    torch.set_num_threads(1)
    recipe = load_recipe("mosbach2020_sst2", rate=1e-4, batch=16, save_epochs=False)
    with tempfile.TemporaryDirectory() as cache:
        tuned = finetune("minilm", load_corpus("opinions").task("opinion"), recipe, threads=1, cache=Path(cache))
        base, encoder = (load_model(source) for source in ("minilm", tuned.folder))
    head = choose_head("reference", None, encoder, base)
    text = load_corpus({"test": Path(os.environ["VESTIGE_DATA"]) / "wikitext2" / "valid.txt"}, format="text")["test"]
    texts = text_blocks(encoder, text, 512)[: given.blocks]
    mask, size = encoder.tokenizer.mask_token_id, encoder.tokenizer.vocab_size
    clozes = list(mask_randomly(texts, mask, size, 0.15, 0, "bert"))
    mixer = Mixer(encoder.model, base.model)
    counts = range(mixer.depth + 1)
    plans = [mixer.last(count) for count in counts]
    built = [replace_blocks(encoder.model, base.model, range(mixer.depth - count, mixer.depth)) for count in counts]

    def ask(run: Run) -> Likelihoods:
        return likelihoods(encoder, clozes, len(texts), "masked", run, [head] * len(plans))

    def one_by_one(inputs: Any) -> list[torch.Tensor]:
        return [model(**inputs).last_hidden_state for model in built]

    shared, ours = least(lambda: ask(lambda inputs: mixer.states(plans, inputs)), given.repeats)
    evaluations = mixer.evaluations / given.repeats / ours.batches
    embeddings = mixer.embeddings / given.repeats / ours.batches
    restored = Mixer(encoder.model, base.model)
    restored.states(
        [*plans, restored.last(restored.depth, embeddings=True)], cloze_inputs(encoder, clozes[:1], "masked")
    )
    alone, theirs = least(lambda: ask(one_by_one), given.repeats)
    states = [last_state(encoder, cloze_inputs(encoder, [cloze], "masked")).detach() for cloze in clozes]
    answers = [answer for cloze in clozes for answer in cloze.answers]
    asked = torch.cat([asked_states(rows, [cloze], "masked") for rows, cloze in zip(states, clozes, strict=True)])
    every = torch.cat([rows[0] for rows in states])
    with torch.inference_mode():
        masked_only, _ = least(lambda: log_probabilities(head, asked, answers), given.repeats)
        everywhere, _ = least(lambda: log_probabilities(head, every, [0] * len(every)), given.repeats)
    result = {
        "tokens": len(every),
        "asked": len(answers),
        "layers": mixer.depth,
        "models": len(plans),
        "evaluations": evaluations,
        "evaluations_alone": len(plans) * mixer.depth,
        "embeddings": embeddings,
        "evaluations_restored": restored.evaluations,
        "evaluations_restored_alone": (len(plans) + 1) * mixer.depth,
        "seconds": shared,
        "seconds_alone": alone,
        "head_masked_seconds": masked_only,
        "head_everywhere_seconds": everywhere,
        "loss_distance": float(np.abs(ours.losses - theirs.losses).max()),
        "perplexities": np.exp(ours.losses).tolist(),
    }
    print(result)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "sweep.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
