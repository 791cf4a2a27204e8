"""From which model was this one tuned? What its own folder says."""

from dataclasses import dataclass
from pathlib import Path

import yaml

from vestige.errors import ModelError, SpecError
from vestige.files import load_json, read_file
from vestige.models.files.sources import model_folder

_NAME_BOTH = "name both: vestige compare BASE TUNED"


@dataclass(frozen=True)
class Found:
    """The base of a model, and where that is written."""

    name: str
    why: str


def base_of(tuned: str) -> Found:
    """The base that an adapter's configuration, vestige's own log or the model card names."""
    folder = model_folder(tuned)
    for file, key in (("adapter_config.json", "base_model_name_or_path"), ("finetune.json", "base")):
        named = _json(folder / file).get(key)
        if isinstance(named, str) and named:
            return Found(named, f"named in {file} of {tuned}")
    named = _card(folder / "README.md").get("base_model")
    several = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    if len(several) == 1 and isinstance(several[0], str):
        return Found(several[0], f"base_model of the model card of {tuned}")
    if len(several) > 1:
        raise SpecError(f"{tuned}: its model card names several bases: {', '.join(map(str, several))}", fix=_NAME_BOTH)
    raise SpecError(f"{tuned}: neither an adapter's configuration nor a model card names its base", fix=_NAME_BOTH)


def _json(path: Path) -> dict:
    if not path.is_file():
        return {}
    try:
        found = load_json(read_file(path, ModelError))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _card(path: Path) -> dict:
    """What stands between the first two lines of dashes of a model card."""
    if not path.is_file():
        return {}
    text = read_file(path, ModelError, 2**20).decode("utf-8", "replace")
    parts = text.split("---\n", 2) if text.startswith("---\n") else []
    try:
        found = yaml.safe_load(parts[1]) if len(parts) == 3 else {}
    except yaml.YAMLError:
        return {}
    return found if isinstance(found, dict) else {}
