"""A working directory in which the commands of the documents run as they are written.

Every name that would need a hub, a licence or a long download is a small folder or file here, and the built-in
treebank is cut to its first sentences.
"""

import json
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import tiny
from peft import LoraConfig, get_peft_model
from transformers import AutoModel
from unit.models.test_elmo import save as save_elmo

import vestige as vg

ROOT = Path(__file__).parents[1]
CORPORA = Path(str(files("vestige.corpus")))


def fill(folder: Path) -> Path:
    """Models, files of the user's own, `data/`, what VESTIGE_DATA names, and `package/` with the built-in corpora."""
    _models(folder)
    _corpora(folder)
    for name in ("examples", "Makefile", "pyproject.toml", "constraints.txt"):
        (folder / name).symlink_to(ROOT / name)
    for name in ("benchmarks", "docs"):
        shutil.copytree(ROOT / name, folder / name)
    vectors = vg.represent(vg.load_model(str(folder / "elmo")), vg.load_corpus(folder)["test"], cache=folder / "cache")
    vg.export_activations(vectors["last"], vg.load_corpus(folder)["test"], folder / "neurox.hdf5")
    _other_tools(folder, vectors["last"])
    return folder


def _other_tools(folder: Path, vectors: Any) -> None:
    """What lm-eval logged of two models, and activations of words as one file."""
    for side, share in (("base", 3), ("tuned", 2)):
        (folder / "lm_eval" / side).mkdir(parents=True)
        rows = [
            {"doc_id": n, "doc": {"q": n}, "target": "a", "metrics": ["acc"], "acc": float(n % share > 0)}
            for n in range(40)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "lm_eval" / side / "samples_piqa_2026-01-01T00-00-00.0.jsonl").write_text(text)
    np.savez(folder / "activations.npz", **{f"layer_{n}": vectors.layer(n) for n in range(vectors.layers)})


def token_activations() -> dict[str, Any]:
    """`activations` and `word_ids` of the guide on other tools: a token for every word, after a first one."""
    sizes = [len(sentence.all_words) for sentence in vg.load_corpus({"test": "test.conllu"})["test"]]
    word_ids = [[None, *range(size)] for size in sizes]
    states = np.ones((len(sizes), 1 + max(sizes), 8), np.float32)
    return {"activations": {"hook_embed": states, "blocks.0.hook_resid_post": states}, "word_ids": word_ids}


def _models(folder: Path) -> None:
    tiny.save("bert", folder / "bert-base-cased", layers=1)
    tiny.save("bert", folder / "my-finetuned-bert", layers=1, seed=1, classes=2)
    tiny.save("roberta", folder / "roberta-base", layers=2)
    tiny.save("gpt2", folder / "gpt2", layers=2)
    for step in (500, 1000):
        tiny.save("bert", folder / "trainer_output" / f"checkpoint-{step}", layers=1, seed=step)
    base = AutoModel.from_pretrained(folder / "bert-base-cased")
    get_peft_model(base, LoraConfig(r=2, target_modules=["query"])).save_pretrained(folder / "my-lora-adapter")
    save_elmo(folder / "elmo")


def _corpora(folder: Path) -> None:
    data, package = folder / "data", folder / "package"
    for name in ("builtin", "catalog"):
        shutil.copytree(CORPORA / name, package / name)
    for name in ("ud_ewt", "conll2000", "cola", "sst2"):
        (data / name).mkdir(parents=True)
    for split, count in (("train", 24), ("dev", 20), ("test", 32)):
        blocks = (CORPORA / "builtin" / "treebank" / f"{split}.conllu").read_text().split("\n\n")[:count]
        text = "\n\n".join(blocks) + "\n\n"
        (folder / f"{split}.conllu").write_text(text)
        (package / "builtin" / "treebank" / f"{split}.conllu").write_text(text)
        (data / "ud_ewt" / f"en_ewt-ud-{split}.conllu").write_text("\n\n".join(blocks[:12]) + "\n\n")
        chunks = [[(row.split("\t")[1], row.split("\t")[3]) for row in b.splitlines() if row[0] != "#"] for b in blocks]
        rows = ["".join(f"{word} {tag} B-{tag[:1]}P\n" for word, tag in chunk) for chunk in chunks]
        if split != "dev":
            (data / "conll2000" / f"{split}.txt").write_text("\n".join(rows[:20]))
        if split == "train":
            tagged = ["".join(f"{word}\t{tag}\n" for word, tag in chunk) for chunk in chunks]
            (folder / "my_tags.txt").write_text("\n".join(tagged))
    opinions = [f"It is {word} .\t{i % 2}" for i, word in enumerate(("good", "bad", "fine", "poor"))]
    for split in ("train", "dev"):
        (data / "sst2" / f"{split}.tsv").write_text("\n".join(["sentence\tlabel", *opinions]) + "\n")
    judged = "".join(f"x\t{i % 2}\t\tThe fox {word} .\n" for i, word in enumerate(("runs", "run", "sees", "see")))
    for name in ("in_domain_train.tsv", "mixed_dev.tsv"):
        (data / "cola" / name).write_text(judged)
    hub = folder / "stanfordnlp" / "sst2"
    hub.mkdir(parents=True)
    (hub / "train.csv").write_text("sentence,label\n" + "".join(f"it is {i},{i % 2}\n" for i in range(6)))


def labelled_rows() -> dict[str, np.ndarray]:
    """`x` and `y` of the README: vectors and their labels."""
    rng = np.random.default_rng(0)
    y = np.array(["a", "b"] * 20)
    return {"x": rng.normal(size=(40, 3)) + (y == "a")[:, None], "y": y}
