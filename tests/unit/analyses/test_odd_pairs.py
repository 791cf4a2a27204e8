"""Pairs of models that do not fit, and labels that are too rare: every analysis of what happened names what is wrong.

A study goes on where an analysis fails. What fails says what was expected, where, and what to do; nothing fails with an
exception that nobody foresaw (those have no `fix`).
"""

import json
import re

import pytest
import tiny
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForMaskedLM

from vestige.study.run import Study

WORDS = {"tasks": ["words/upos"]}
FEW = {"resamples": 20, "sentences": 6, "rate": 0.5}
SOME = {"models": ["base", "wide", "deeper", "vocabulary", "four_bit", "eight_bit"]}
"""What reads hidden states alone does not mind heads and adapters."""
TESTED = {
    "weights": {},
    "geometry": {**WORDS, "words": 60, "groups": 2},
    "similarity": {**WORDS, "n": 60, "groups": 2, "measures": ["cka"]},
    "probe_transfer": {**WORDS, **SOME, "tolerance": 0.2, "l2": 0.1},
    "v_information": {**WORDS, **SOME, "l2": 0.1, "tolerance": 0.2, "context": False},
    "patched_probe": {**WORDS, "sites": ["block"], "g": [], "sentences": 6, "tolerance": 0.2},
    "patching": {**WORDS, "measures": ["loss"], "sites": ["block"], "g": [], "sentences": 6, "rate": 0.5},
    "lens": {**WORDS, **FEW},
    "output_drift": {**WORDS, **FEW},
}
ASK = ("patched_probe", "patching", "lens", "output_drift")


def made(family="bert", seed=0, layers=2, width=32, **changes):
    torch.manual_seed(seed)
    config = tiny.config(family, layers, width)
    for name, value in changes.items():
        setattr(config, name, value)
    return AutoModelForMaskedLM.from_config(config).eval()


def save(model, folder, family="bert"):
    model.save_pretrained(folder)
    tiny.tokenizer(family).save_pretrained(folder)
    return folder


def configured(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def adapter(folder, base, targets, **settings):
    lora = LoraConfig(r=2, target_modules=targets, init_lora_weights=False, **settings)
    get_peft_model(AutoModel.from_pretrained(base), lora).save_pretrained(folder)


def stored_whole_numbers(folder):
    """Weights as whole numbers, and nothing that says by what they are to be multiplied."""
    tensors = load_file(folder / "model.safetensors")
    name = next(name for name in tensors if name.endswith("query.weight"))
    tensors[name] = (100 * tensors[name]).to(torch.int8)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("pairs")
    save(made(), root / "base")
    save(made(width=64), root / "wide")
    save(made(layers=3), root / "deeper")
    save(made("roberta"), root / "vocabulary", "roberta")
    save(made(seed=1, tie_word_embeddings=False), root / "untied")
    save(tiny.model("bert", seed=2, layers=2), root / "headless")
    grown = made(seed=1)
    grown.resize_token_embeddings(grown.config.vocab_size + 7)
    save(grown, root / "grown")
    configured(save(made(seed=3), root / "four_bit"), quantization_config={"quant_method": "gptq", "bits": 4})
    stored_whole_numbers(save(made(seed=3), root / "eight_bit"))
    adapter(root / "query", root / "base", ["query"])
    adapter(root / "dora", root / "base", ["query"], use_dora=True)
    adapter(root / "elsewhere", root / "base", ["pooler.dense"])
    return root


@pytest.fixture(scope="module")
def failed(folder):
    """By model and analysis: the problem and the way out of everything that failed."""
    tuned = sorted(path.name for path in folder.iterdir() if path.name != "base")
    raw = {
        "study": "odd",
        "models": {"base": str(folder / "base"), **{name: tuned_of(folder, name) for name in tuned}},
        "corpora": {"words": {"name": "treebank", "sample": {"train": 30, "dev": 12, "test": 20}}},
        "analyses": [{name: asked} for name, asked in TESTED.items()],
        "compare": {"resamples": 49},
        "compute": {"on_unknown": "allow"},
    }
    run = Study.from_dict(raw, folder / "run", cache=folder / "cache").run(name="inline")
    assert run.report().exists()
    return {(one["model"], one["analysis"]): (one["problem"], one["fix"]) for one in run.failed}


def tuned_of(folder, name):
    return {"load": str(folder / name), "reference": "base"}


EXPECTED = {
    ("wide", "patching"): "normalized_shape of attention.output.LayerNorm is (64,) or (32,)",
    ("wide", "patched_probe"): "normalized_shape of attention.output.LayerNorm is (64,) or (32,)",
    ("wide", "lens"): "the head does not take states of wide, which are 64 wide",
    ("wide", "output_drift"): "the head does not take states of wide, which are 64 wide",
    ("deeper", "patching"): "the models have 3 and 2 blocks",
    ("deeper", "patched_probe"): "the models have 3 and 2 blocks",
    ("deeper", "lens"): "deeper has 3 layers, its reference 2",
    ("vocabulary", "patching"): "the block is RobertaLayer or BertLayer",
    ("vocabulary", "patched_probe"): "as different tokens",
    ("vocabulary", "lens"): "as different tokens",
    ("vocabulary", "output_drift"): "as different tokens",
    ("grown", "patching"): "the head scores 160 tokens, but grown has 167",
    ("grown", "lens"): "the head scores 160 tokens, but grown has 167",
    ("grown", "output_drift"): "the head scores 160 tokens, but grown has 167",
    ("four_bit", "weights"): "its weights are quantised (gptq)",
    ("eight_bit", "weights"): "query.weight is quantised (I8)",
    ("query", "patching"): "while an adapter is on them",
    ("query", "patched_probe"): "while an adapter is on them",
    ("dora", "weights"): "the adapter has use_dora",
    ("dora", "patching"): "while an adapter is on them",
    ("dora", "patched_probe"): "while an adapter is on them",
    ("elsewhere", "weights"): "the adapter changes pooler.dense, which",
    ("elsewhere", "patching"): "while an adapter is on them",
    ("elsewhere", "patched_probe"): "while an adapter is on them",
}
"""What cannot be done of which pair, and what is said of it; of quantised models nothing can."""
UNREADABLE = {"four_bit": "transformers cannot load it (ImportError", "eight_bit": "is quantised (torch.int8)"}


def test_every_failure_is_foreseen_and_nothing_else_fails(failed):
    expected = {*EXPECTED, *((model, name) for model in UNREADABLE for name in TESTED)}
    assert {*failed} == expected, sorted({*failed} ^ expected)
    assert all(fix and len(problem) > 20 for problem, fix in failed.values())


@pytest.mark.parametrize("pair", EXPECTED, ids=" ".join)
def test_what_is_wrong_is_named(failed, pair):
    assert EXPECTED[pair] in failed[pair][0]


@pytest.mark.parametrize("model", UNREADABLE)
def test_quantised_weights_are_named_and_a_way_out(failed, model):
    for name in set(TESTED) - {"weights"}:
        problem, fix = failed[model, name]
        assert UNREADABLE[model] in problem and "before they were quantised" in fix


def test_an_error_of_an_analysis_that_asks_the_model_names_no_other_analysis_alone(failed):
    for (_, name), (problem, _) in failed.items():
        others = {other for other in (*ASK, "perplexity", "minimal_pairs") if other != name}
        assert not any(re.search(rf"\b{other}\b", problem) for other in others)


LABELS = {
    "one": ("X", "X", r"only the label 'X' in train"),
    "unseen": ("XY", "Z", r"no word of 'dev' of task 'tag' has a label that occurs in train"),
}


@pytest.mark.parametrize("case", LABELS)
def test_labels_that_are_too_rare_are_named(folder, tmp_path, case):
    seen, held, said = LABELS[case]
    for split, labels in (("train", seen), ("dev", held), ("test", held)):
        lines = [f"{word}\t{labels[n % len(labels)]}" for text in tiny.TEXT for n, word in enumerate(text.split())]
        (tmp_path / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    tasks = {"tasks": ["words/tag"]}
    raw = {
        "study": "rare",
        "models": {"base": str(folder / "base"), "untied": tuned_of(folder, "untied")},
        "corpora": {
            "words": {
                "files": {split: str(tmp_path / f"{split}.tsv") for split in ("train", "dev", "test")},
                "format": "columns",
                "options": {"columns": {"tag": 1}},
            }
        },
        "analyses": [{"v_information": {**tasks, "probe": probe, "seeds": 1}} for probe in ("linear", "mlp")]
        + [{"geometry": {**tasks, "words": 40, "groups": 2}}],
        "compute": {"on_unknown": "allow"},
    }
    run = Study.from_dict(raw, tmp_path / "run", cache=tmp_path / "cache").run(name="inline")
    assert {one["analysis"] for one in run.failed} == {"v_information"} and len(run.failed) == 4
    assert all(re.search(said, one["problem"]) and one["fix"] for one in run.failed)
