"""A study that takes a second: tiny models, forty sentences."""

from pathlib import Path

import numpy as np
import tiny


def conllu(sentences) -> str:
    blocks = []
    for number, words in enumerate(sentences):
        rows = [f"# sent_id = s{number}"]
        for i, word in enumerate(words, start=1):
            tag = "PUNCT" if not word[0].isalnum() else "CAP" if word[0].isupper() else "LOW"
            rows.append(f"{i}\t{word}\t{word}\t{tag}\t{tag}\t_\t{i - 1}\t{'root' if i == 1 else 'dep'}\t_\t_")
        blocks.append("\n".join(rows))
    return "\n\n".join(blocks) + "\n\n"


def make_place(folder: Path) -> Path:
    """A folder with a corpus, an opinion file and tiny models."""
    rng = np.random.default_rng(0)
    words = [line.split() for line in tiny.TEXT]
    for split, count in (("train", 40), ("dev", 10), ("test", 30)):
        mixed = [list(rng.permutation(words[rng.integers(len(words))])) for _ in range(count)]
        (folder / f"{split}.conllu").write_text(conllu(mixed))
    rows = [f"{' '.join(rng.permutation(words[i % 6]))}\t{'good' if i % 2 else 'bad'}" for i in range(40)]
    (folder / "opinions.tsv").write_text("\n".join(["sentence\tlabel", *rows]) + "\n")
    tiny.save("bert", folder / "base", layers=2)
    tiny.save("bert", folder / "other", layers=2, seed=1, classes=2)
    tiny.save("bert", folder / "deeper", layers=3, seed=2)
    tiny.save("roberta", folder / "roberta", layers=2)
    return folder


def study(place: Path, **changes):
    """The spec of a study of two of the models."""
    raw = {
        "study": "tiny",
        "models": {"base": str(place / "base"), "other": {"load": str(place / "other"), "reference": "base"}},
        "corpora": {"words": {"files": {s: str(place / f"{s}.conllu") for s in ("train", "dev", "test")}}},
        "analyses": [{"layer_probe": {"tasks": ["words/upos"], "seeds": 2}}],
        "compare": {"resamples": 99},
        **changes,
    }
    return raw
