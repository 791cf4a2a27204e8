"""Corpora and representations made up for tests: word vectors with a planted relation to labels."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from vestige.analyses.base import Inputs
from vestige.checksums import seal
from vestige.corpus.control import control_labels
from vestige.corpus.types import Corpus, Sentence, Task
from vestige.representations.store import Representations, create_layers, write_manifest


def corpus(rng: np.random.Generator, sizes=(("train", 120), ("dev", 30), ("test", 60)), types=60, labels=5) -> Corpus:
    """Sentences of random words; a word's label is that of its type, or of its neighbour now and then."""
    of_type = rng.integers(0, labels, size=types)
    splits = {}
    for split, count in sizes:
        sentences = []
        for number in range(count):
            words = rng.integers(0, types, size=rng.integers(3, 15))
            tags = np.where(rng.random(len(words)) < 0.85, of_type[words], of_type[np.roll(words, 1)])
            annotations = {"tag": tuple(f"T{tag}" for tag in tags)}
            sentences.append(Sentence(f"{split}{number}", tuple(f"w{word}" for word in words), annotations=annotations))
        splits[split] = tuple(sentences)
    return Corpus("made-up", splits, {"tag": "token"})


def control_task(task: Task, seed: int) -> Task:
    """The control task of a token-level task: same words, a random label per word type."""
    types = {word for sentences in task.corpus.splits.values() for s in sentences for word in s.all_words}
    chosen = control_labels(types, task.label_counts, seed)
    name = f"{task.name}-control-{seed}"
    splits = {
        split: tuple(
            replace(s, annotations={**s.annotations, name: tuple(chosen[word] for word in s.all_words)})
            for s in sentences
        )
        for split, sentences in task.corpus.splits.items()
    }
    return Corpus(task.corpus.name, splits, {**task.corpus.levels, name: "token"}, task.corpus.notes).task(name)


def represent(
    folder: Path, made: Corpus, vector, widths=(16, 16, 16), scale=1.0, seed=0, keep=99, mapped=lambda rows: rows
) -> Inputs:
    """Representations whose layer l of a word is vector(sentence, word, l) plus noise, times `scale`, then `mapped`.

    Words past the first `keep` of a sentence have no row, as if the model had no room for them.
    """
    rng = np.random.default_rng(seed)
    found = {}
    for split, sentences in made.splits.items():
        place = folder / split
        place.mkdir(parents=True)
        index = np.array(
            [(i, j) for i, s in enumerate(sentences) for j in range(min(keep, len(s.words)))], dtype=np.int32
        )
        layers = create_layers(place, len(index), widths, "float32")
        for layer, array in enumerate(layers):
            clean = np.array([vector(sentences[i], j, layer) for i, j in index])
            array[:] = mapped(scale * (clean + 0.6 * rng.normal(size=array.shape)))
            array.flush()
        manifest = {
            "widths": list(widths),
            "rows": len(index),
            "words": len(index),
            "truncated_words": 0,
            "vanished_words": 0,
            "sink_words": 0,
            "word_tokens": 0,
            "unknown_tokens": 0,
        }
        write_manifest(place, index, manifest)
        seal(place, place)
        found[split] = Representations.open(place)
    return Inputs(made.task("tag"), {"last": found}, "made-up model")


def label_vector(sentence: Sentence, word: int, layer: int, width: int = 16) -> np.ndarray:
    """A direction per label that fades from layer to layer."""
    tag = int(sentence.annotations["tag"][word][1:])
    return np.eye(width)[tag] * (2.0, 1.0, 0.4)[layer]
