"""The demo's study: what fine-tuning on opinions does to word-level knowledge and to the language model in MiniLM."""

from typing import Any

from vestige.errors import VestigeError

DEMO: dict[str, Any] = {
    "study": "demo",
    "about": (
        "MiniLM before and after fine-tuning on 800 short opinions (positive or negative), probed for parts of "
        "speech and dependency relations at every layer, and asked for masked words: before, after, and with its last "
        "layers replaced by the reference's. The learning rate is five times the usual 2e-5, and five epochs are "
        "trained, so that there is something to see."
    ),
    "models": {
        "base": "minilm",
        "tuned": {"finetune": {"of": "base", "task": "opinions/opinion", "recipe": {"rate": 1e-4, "epochs": 5}}},
        "random twin": {"random_twin_of": "base"},
    },
    "corpora": {"treebank": "treebank", "opinions": "opinions"},
    "analyses": [
        {"layer_probe": {"tasks": ["treebank/xpos", "treebank/deprel"], "seeds": 3}},
        {"perplexity": {"tasks": ["treebank/xpos"], "models": ["tuned"], "unit": "sentence", "mask_seeds": 3}},
    ],
}


def demo_spec(limit: int | None = None, device: str = "cpu") -> dict[str, Any]:
    """The demo's study file as a dictionary; verifies the embedded model's weights first."""
    from vestige.models.files.sources import minilm_folder

    if limit is not None and limit < 20:
        raise VestigeError(f"--limit {limit} leaves too few sentences to train a probe", fix="use 20 or more")
    minilm_folder(verify=True)
    return {**DEMO, "limit": limit, "compute": {"device": device}}
