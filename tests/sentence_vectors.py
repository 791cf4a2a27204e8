"""Sentence-level corpora and sentence vectors made up for tests, with a planted relation to labels."""

from pathlib import Path
from zlib import crc32

import numpy as np

from vestige.analyses.base import Inputs
from vestige.checksums import seal
from vestige.corpus.types import Corpus, Sentence
from vestige.representations.store import Representations, create_layers, write_manifest

SIZES = (("train", 200), ("dev", 60), ("test", 100))
WIDTH = 12


def corpus(seed: int = 0, sizes=SIZES, labels=("I", "O")) -> Corpus:
    """Sentences of random words with random labels."""
    rng = np.random.default_rng(seed)
    splits = {}
    for split, count in sizes:
        sentences = []
        for number in range(count):
            words = tuple(f"w{word}" for word in rng.integers(0, 20, size=rng.integers(3, 12)))
            annotations = {"label": labels[rng.integers(len(labels))]}
            sentences.append(Sentence(f"{split}{number}", words, annotations=annotations))
        splits[split] = tuple(sentences)
    return Corpus("made-up", splits, {"label": "sentence"})


def represent(folder: Path, made: Corpus, vector, layers=3, noise=1.0, pooling="cls", scale=1.0) -> Inputs:
    """Vectors whose layer l is vector(sentence, l) plus noise of this sentence and layer, times `scale`."""
    found = {}
    for split, sentences in made.splits.items():
        place = folder / split / pooling
        place.mkdir(parents=True)
        arrays = create_layers(place, len(sentences), (WIDTH,) * layers, "float32")
        for layer, array in enumerate(arrays):
            for row, sentence in enumerate(sentences):
                rng = np.random.default_rng([layer, crc32(f"{pooling} {sentence.id}".encode())])
                array[row] = scale * (vector(sentence, layer) + noise * rng.normal(size=WIDTH))
            array.flush()
        index = np.stack([np.arange(len(sentences)), np.full(len(sentences), -1)], axis=1).astype(np.int32)
        words = sum(len(sentence.words) for sentence in sentences)
        losses = {
            "words": words,
            "truncated_words": 0,
            "vanished_words": 0,
            "sink_words": 0,
            "word_tokens": words,
            "unknown_tokens": 0,
        }
        write_manifest(place, index, {"widths": [WIDTH] * layers, "rows": len(sentences), "pooling": pooling, **losses})
        seal(place, place)
        found[split] = Representations.open(place)
    return Inputs(made.task("label"), {pooling: found}, "made-up model")


def planted(at: int, strength: float = 6.0):
    """A direction that tells the label I at one layer, and nothing elsewhere."""

    def vector(sentence: Sentence, layer: int) -> np.ndarray:
        side = 1.0 if sentence.annotations["label"] == "I" else -1.0
        return np.eye(WIDTH)[0] * side * strength * (layer == at)

    return vector


def nothing(sentence: Sentence, layer: int) -> np.ndarray:
    """No relation to the label."""
    return np.zeros(WIDTH)
