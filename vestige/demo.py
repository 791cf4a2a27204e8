"""The demo's study: what fine-tuning on opinions does to word-level knowledge and to the language model in MiniLM."""

from typing import Any

from vestige.errors import ModelError, VestigeError

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


OWN_MODEL = (
    "{model} before and after fine-tuning on 800 short opinions (positive or negative), probed for parts of speech and "
    "dependency relations at every layer."
)


def demo_spec(limit: int | None = None, device: str = "cpu", model: str | None = None) -> dict[str, Any]:
    """The demo's study file as a dictionary, of the embedded model (its weights are verified) or of another.

    What is left of the language model is asked of the embedded one only: another may have no head for it.
    """
    if limit is not None and limit < 20:
        raise VestigeError(f"--limit {limit} leaves too few sentences to train a probe", fix="use 20 or more")
    asked = {**DEMO, "limit": limit, "compute": {"device": device}}
    if model is None:
        _verify_minilm()
        return asked
    about, models = OWN_MODEL.format(model=model), {**DEMO["models"], "base": model}
    return {**asked, "about": about, "models": models, "analyses": DEMO["analyses"][:1]}


def _verify_minilm() -> None:
    from vestige.models.files.sources import minilm_folder

    try:
        minilm_folder(verify=True)
    except ModelError as error:
        raise ModelError(
            error.problem, fix=f"{error.fix}; or take a model of your own: vestige demo --model FOLDER"
        ) from error
