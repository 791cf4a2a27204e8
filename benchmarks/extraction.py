"""Hidden states of every layer, one vector per word: vestige beside NeuroX 1.0.9, one process, one thread.

    python benchmarks/extraction.py [--sentences 1000] [--repeats 3] [--out benchmarks/results]

MiniLM on the dev sentences of UD English EWT (VESTIGE_DATA must hold ud_ewt), last sub-word. vestige's
`represent` fills its memory-mapped store; NeuroX's extractor writes HDF5, then JSON. Both find the model
loaded. Times are CPU seconds of this process, the least of the repeats on either side. What NeuroX prints
for every sentence goes to the null device. All vectors are compared, word by word. Last, vestige alone is timed by the
clock with one thread and with two, turn by turn.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its threads would count as CPU time

import numpy as np
import torch

np.int = int  # NeuroX 1.0.9 uses the name that numpy dropped
sys.path = [place for place in sys.path if Path(place).resolve() != Path(__file__).resolve().parent]  # not neurox.py

from neurox.data.extraction import transformers_extractor as extractor

from vestige.corpus.load import load_corpus
from vestige.corpus.types import Sentence
from vestige.models.files.load import load_model
from vestige.models.files.sources import minilm_folder
from vestige.representations.activation_files import READERS
from vestige.representations.extract import represent
from vestige.representations.store import Representations

TOLERANCE = 1e-5
"""Of max(1, the layer's largest value)."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        yield


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of this process, and what the work returned."""
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def given(count: int) -> list[Sentence]:
    """Dev sentences that survive NeuroX's splitting at spaces and fit the model."""
    found = (s for s in load_corpus("ud_ewt")["dev"] if len(s.words) < 200 and not any(" " in w for w in s.words))
    return [sentence for sentence, _ in zip(found, range(count), strict=False)]


def distance(stored: Representations, path: Path) -> float:
    """The largest difference of any word at any layer, in units of max(1, the layer's largest value)."""
    layers = [stored.layer(index) for index in range(stored.layers)]
    sizes = [max(1.0, float(np.abs(layer).max())) for layer in layers]
    start, worst = 0, 0.0
    for sentence in READERS[path.suffix](path):
        for layer, size, theirs in zip(layers, sizes, sentence.layers, strict=True):
            mine = layer[start : start + sentence.words]
            worst = max(worst, float(np.abs(mine - theirs).max()) / size)
        start += sentence.words
    assert start == len(stored), (start, len(stored))
    return worst


def forward(encoder: Any, sentences: list[Sentence]) -> float:
    """CPU seconds of the model alone, in vestige's batches: nobody extracts faster with this model."""
    from vestige.representations.extract import batches_for

    encoded = encoder.encode(sentences)
    batches = [encoder.inputs([encoded[number] for number in numbers]) for numbers in batches_for(encoder, encoded)]
    with torch.inference_mode():
        return seconds(lambda: [encoder.model(**batch, output_hidden_states=True) for batch in batches])[0]


def side_by_side(sentences: list[Sentence], folder: Path, repeats: int) -> list[dict[str, float]]:
    """Wall-clock seconds of one thread and of two, model loaded and known, one turn after the other."""
    encoder, turns = load_model("minilm"), []
    assert encoder.fingerprint and encoder.widths
    for repeat in range(repeats):
        turn = {}
        for threads in (1, 2):
            torch.set_num_threads(threads)
            start = time.perf_counter()
            represent(encoder, sentences, cache=folder / f"threads{threads}-{repeat}")
            turn[str(threads)] = time.perf_counter() - start
        turns.append(turn)
    torch.set_num_threads(1)
    return turns


def measure(sentences: list[Sentence], folder: Path, repeats: int) -> dict[str, Any]:
    text = folder / "corpus.txt"
    text.write_text("".join(" ".join(sentence.words) + "\n" for sentence in sentences), encoding="utf-8")
    loaded = extractor.get_model_and_tokenizer(str(minilm_folder()))
    extractor.get_model_and_tokenizer = lambda *_, **__: loaded

    def neurox(kind: str) -> None:
        with quiet():
            extractor.extract_representations(
                str(minilm_folder()), str(text), str(folder / f"theirs.{kind}"), aggregation="last", output_type=kind
            )

    times: dict[str, list[float]] = {"vestige": [], "forward": [], "hdf5": [], "json": []}
    for repeat in range(repeats):
        encoder = load_model("minilm")  # anew: its fingerprint is part of the work
        spent, found = seconds(lambda r=repeat, e=encoder: represent(e, sentences, cache=folder / f"cache{r}")["last"])
        times["vestige"].append(spent)
        times["forward"].append(forward(encoder, sentences))
        for kind in ("hdf5", "json"):
            times[kind].append(seconds(lambda kind=kind: neurox(kind))[0])
        print({name: round(spent[-1], 2) for name, spent in times.items()}, flush=True)
    least = {name: min(spent) for name, spent in times.items()}
    turns = side_by_side(sentences, folder, repeats)
    return {
        "data": "MiniLM on EWT dev, last sub-word",
        "sentences": len(sentences),
        "words": len(found),
        "layers": found.layers,
        "repeats": times,
        "vestige_seconds": least["vestige"],
        "forward_seconds": least["forward"],
        "rows": [
            {
                "what": f"extraction, against the {kind.upper()} writer",
                "neurox_seconds": least[kind],
                "vestige_seconds": least["vestige"],
                "ratio": least[kind] / least["vestige"],
                "bound": least[kind] / least["forward"],
                "distance": distance(found, folder / f"theirs.{kind}"),
            }
            for kind in ("hdf5", "json")
        ],
        "tolerance": TOLERANCE,
        "threads": turns,
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sentences", type=int, default=1000)
    arguments.add_argument("--repeats", type=int, default=3)
    arguments.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    asked = arguments.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        result = measure(given(asked.sentences), Path(folder), asked.repeats)
    for row in result["rows"]:
        print(row)
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "extraction.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
