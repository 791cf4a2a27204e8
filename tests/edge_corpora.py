"""Corpora with labelled spans, and representations made for them."""

from pathlib import Path

import numpy as np
import pandas as pd

from vestige.analyses.base import Inputs
from vestige.checksums import seal
from vestige.corpus.types import Corpus, Sentence, SpanPair
from vestige.representations.store import Representations, create_layers, write_manifest


def corpus(**splits) -> Corpus:
    """Splits of sentences given as (number of words, targets)."""
    made = {
        split: tuple(
            Sentence(f"{split}{at}", tuple(f"w{i}" for i in range(words)), annotations={"edge": tuple(targets)})
            for at, (words, targets) in enumerate(sentences)
        )
        for split, sentences in splits.items()
    }
    pairs = any(isinstance(t, SpanPair) for sentences in splits.values() for _, targets in sentences for t in targets)
    return Corpus("planted", made, {"edge": "span_pair" if pairs else "span"})


def represent(folder: Path, made: Corpus, vector, widths, keep=99, pieces=1, without=()) -> Inputs:
    """Layer l of piece p of a word is vector(sentence, word, l), or vector(sentence, word, l, p) of several pieces.

    Words past the first `keep` of a sentence, and those numbered in `without`, have no row.
    """
    found = {}
    for split, sentences in made.splits.items():
        (folder / split).mkdir(parents=True)
        rows = [
            (i, j, p)
            for i, s in enumerate(sentences)
            for j in range(min(keep, len(s.words)))
            if j not in without
            for p in range(pieces)
        ]
        for layer, array in enumerate(create_layers(folder / split, len(rows), tuple(widths), "float32")):
            array[:] = [vector(sentences[i], j, layer, *([p] if pieces > 1 else [])) for i, j, p in rows]
            array.flush()
        index = np.array(rows, dtype=np.int32)[:, :2]
        write_manifest(folder / split, index, {"widths": list(widths), "rows": len(rows)})
        seal(folder / split, folder / split)
        found[split] = Representations.open(folder / split)
    return Inputs(made.task("edge"), {"mean": found}, "planted model")


def named(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of an edge probe with one name for what each is of: its input, the layers of a mix, the scorer."""

    def name(row: pd.Series) -> str:
        if row.get("axis") == "last_layer_mixed":
            return f"mix 0-{row['x']:.0f}"
        texts = [row[column] for column in ("input", "subset") if isinstance(row.get(column), str)]
        return texts[0] if texts else f"layer {row['layer']:.0f}"

    return rows.assign(input=[name(row) for _, row in rows.iterrows()])
