"""A model with the head it is tuned under: built from a backbone, saved as a folder, loaded again.

Where transformers has a head for the problem and the family, that class is used and the folder is
an ordinary one of that class. Our own heads lie beside the backbone, as head.safetensors.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from vestige.errors import ModelError
from vestige.finetune.examples import Example
from vestige.finetune.naming import LOG
from vestige.finetune.problems import Problem, restore_problem
from vestige.finetune.recipe import Lora, Recipe, make_recipe
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.encoders.reading import AS_IS
from vestige.models.files.adapter_patterns import check_patterns
from vestige.models.files.load import load_backbone, load_tokenizer, quiet_transformers
from vestige.models.files.sources import model_folder
from vestige.models.surgery.blocks import freeze
from vestige.models.surgery.unroll import find_parts

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

HEAD = "head.safetensors"


class Tunable(nn.Module):
    """Backbone and head as one module that gives a loss, or answers."""

    def __init__(self, whole: nn.Module, head: nn.Module | None, problem: Problem, encoder: HuggingFaceEncoder) -> None:
        """`whole` is transformers' model with its head, or the backbone under ours."""
        super().__init__()
        self.whole, self.head = whole, head
        self.problem, self.encoder = problem, encoder
        self.frozen: list[nn.Module] = []
        """Modules that stay in evaluation mode, each for itself."""
        plain: Any = whole.get_base_model() if hasattr(whole, "peft_config") else whole
        self.config: PretrainedConfig = plain.config
        self._side = "left" if getattr(self.config, "summary_type", "") == "last" else "right"
        self._accepts = inspect.signature((plain if head is None else encoder.model).forward).parameters

    def forward(self, inputs: dict[str, Any], given: dict[str, Tensor], answer_for: Sequence[Example] = ()) -> Any:
        """The mean loss of a batch or, with `answer_for`, its examples, their answers."""
        output = (self.whole if self.head is None else self.encoder.model)(**inputs)
        if answer_for:
            return self.problem.read(output, given, self.head, answer_for)
        return self.problem.loss(output, given, self.head)

    def batch(self, examples: Sequence[Example], training: bool) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The tensors of a batch. Heads that read the last position (XLNet's) need the padding on the left."""
        side: Any = self._side if self.problem.kind in ("classes", "numbers") and self.head is None else "right"
        inputs = self.encoder.inputs([example.encoded for example in examples], side)
        if not any(p.kind is p.VAR_KEYWORD for p in self._accepts.values()):
            inputs = {name: value for name, value in inputs.items() if name in self._accepts}
        given = self.problem.targets(examples, self.encoder, training)
        given = {name: tensor.to(self.encoder.device) for name, tensor in given.items()}
        return inputs, {**given, "attention_mask": inputs["attention_mask"]}

    def train(self, mode: bool = True) -> Tunable:
        """Training mode, apart from what is frozen for good."""
        super().train(mode)
        for module in self.frozen:
            module.training = False
        return self

    def save(self, folder: Path) -> None:
        """Weights and configuration, and the head where it is ours."""
        whole: Any = self.whole
        lora = self.problem.recipe.lora
        if isinstance(lora, Lora) and lora.merge:
            whole = deepcopy(whole).merge_and_unload()
        with quiet_transformers():
            whole.save_pretrained(folder)
        if self.head is not None:
            save_file({name: t.contiguous().cpu() for name, t in self.head.state_dict().items()}, folder / HEAD)
            said = {"kind": self.problem.kind, "class": type(self.head).__name__, **self.problem.describe()}
            (folder / "head.json").write_text(json.dumps(said, indent=1, ensure_ascii=False))


def build(
    backbone: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    problem: Problem,
    recipe: Recipe,
    *,
    name: str,
    seed: int,
    device: str,
) -> Tunable:
    """The backbone under a head drawn from the seed, with what the recipe freezes frozen."""
    own = _own(problem, recipe) or (problem.fallback and not _native_fits(problem, backbone, recipe))
    config = _config(backbone.config, problem, recipe, own)
    pads = with_padding(tokenizer, config)
    torch.manual_seed(seed)
    whole = _fresh(problem, config, own, name)
    _fill(whole.base_model, backbone, recipe)
    head = problem.head(width_of(config)) if own else None
    if recipe.freeze is not None:
        freeze(whole.base_model, recipe.freeze)
    if head is not None:
        for parameter in pooler_parameters(whole):
            parameter.requires_grad_(False)
    encoder = HuggingFaceEncoder(whole.base_model, pads, name, device)
    if isinstance(recipe.lora, Lora):
        whole = _with_adapter(whole, problem, recipe, name)
    made = Tunable(whole, head, problem, encoder).to(device)
    if recipe.freeze is not None and recipe.freeze_eval:
        made.frozen = _outside_learning_blocks(encoder.model)
    return made


def load_tuned(folder: str | Path, device: str = "cpu") -> Tunable:
    """The model and head of a folder that `finetune` wrote, ready to score."""
    folder = Path(folder)
    if not (folder / LOG).exists():
        raise ModelError(f"{folder}: no {LOG}, so vestige did not tune it here", fix="name a folder finetune() made")
    log = json.loads((folder / LOG).read_text())
    recipe = make_recipe(log["recipe"])
    problem = restore_problem(log["kind"], {**log["problem"], "recipe": recipe})
    tokenizer = load_tokenizer(folder)
    adapter, own = (folder / "adapter_config.json").exists(), (folder / HEAD).exists()
    if adapter:
        backbone, _ = load_backbone(model_folder(log["base"]), torch.float32, False, False, None, AS_IS)
        config = _config(backbone.config, problem, recipe, own)
        whole: Any = _fresh(problem, config, own, str(folder))
        _fill(whole.base_model, backbone, recipe)
        pads = with_padding(tokenizer, config)
        encoder = HuggingFaceEncoder(whole.base_model, pads, str(folder), device)
        whole = _load_adapter(whole, folder)
    else:
        whole = _load_whole(folder, problem, own)
        encoder = HuggingFaceEncoder(whole.base_model, with_padding(tokenizer, whole.config), str(folder), device)
        config = whole.config
    head = problem.head(width_of(config)) if own else None
    if head is not None:
        head.load_state_dict(load_file(folder / HEAD))
    return Tunable(whole, head, problem, encoder).to(device).eval()


def with_padding(tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig) -> PreTrainedTokenizerBase:
    """A copy that has a padding token, the same as the model's (decoders find the last token by it)."""
    tokenizer = deepcopy(tokenizer)
    if tokenizer.pad_token_id is None:
        known = getattr(config, "pad_token_id", None)
        token = tokenizer.convert_ids_to_tokens(known) if known is not None and known >= 0 else None
        tokenizer.pad_token = token or tokenizer.eos_token or tokenizer.unk_token
    if getattr(config, "pad_token_id", None) is None:
        config.pad_token_id = tokenizer.pad_token_id
    return tokenizer


def pooler_parameters(model: Any) -> list[nn.Parameter]:
    """Of the pooler over the first token, where the backbone has one."""
    pooler = getattr(model.base_model, "pooler", None)
    return list(pooler.parameters()) if isinstance(pooler, nn.Module) else []


def width_of(config: PretrainedConfig) -> int:
    """Of the last layer."""
    return config.hidden_size


def _own(problem: Problem, recipe: Recipe) -> bool:
    return problem.native is None or (problem.kind in ("classes", "numbers") and recipe.pooling == "mean")


def _class(problem: Problem, own: bool) -> Any:
    """The class of transformers that is tuned: a backbone under a head of our own, or one with its head."""
    import transformers

    return transformers.AutoModel if own else getattr(transformers, str(problem.native))


def _native_fits(problem: Problem, backbone: PreTrainedModel, recipe: Recipe) -> bool:
    """Whether transformers has a head for the problem on all of this backbone; some read a part of it (T5's)."""
    kind = _class(problem, own=False)
    try:
        with torch.device("meta"), quiet_transformers():
            whole = kind.from_config(
                _config(backbone.config, problem, recipe, own=False), dtype=torch.float32, trust_remote_code=False
            )
    except ValueError:
        return False
    except (RuntimeError, TypeError):  # it cannot be made without memory: making it will tell
        return True
    known, needed = (
        {key for key in m.state_dict() if not key.startswith("pooler.")} for m in (backbone, whole.base_model)
    )
    return known == needed


def _config(base: PretrainedConfig, problem: Problem, recipe: Recipe, own: bool) -> PretrainedConfig:
    config = deepcopy(base)
    if recipe.dropout is not None:
        for key, value in config.to_dict().items():
            rate = isinstance(value, float | int) or value is None
            if rate and not isinstance(value, bool) and ("dropout" in key or key.endswith("pdrop")):
                setattr(config, key, recipe.dropout)
    if not own:
        names = problem.labels if len(problem.labels) == problem.outputs else range(problem.outputs)
        config.id2label = {index: str(label) for index, label in enumerate(names)}
        config.label2id = {label: index for index, label in config.id2label.items()}
        config.num_labels = problem.outputs
        if problem.kind == "numbers":
            config.problem_type = "regression"
    return config


def _fresh(problem: Problem, config: PretrainedConfig, own: bool, name: str) -> PreTrainedModel:
    """The model with weights drawn anew, all of them."""
    kind = _class(problem, own)
    try:
        with quiet_transformers():
            return kind.from_config(config, dtype=torch.float32, trust_remote_code=False)
    except ValueError as error:
        raise ModelError(
            f"{name}: transformers has no {problem.native} for {config.model_type}",
            fix="choose another model" + (", or pooling: mean" if problem.kind in ("classes", "numbers") else ""),
        ) from error


def _fill(target: PreTrainedModel, source: PreTrainedModel, recipe: Recipe) -> None:
    """Put the backbone's weights under the head."""
    weights = source.state_dict()
    if recipe.pooler == "fresh":
        weights = {name: tensor for name, tensor in weights.items() if not name.startswith("pooler.")}
    outcome = target.load_state_dict(weights, strict=False)
    missing = [name for name in outcome.missing_keys if not name.startswith("pooler.")]
    stray = [name for name in outcome.unexpected_keys if not name.startswith("pooler.")]
    if missing or stray:
        raise ModelError(
            f"{type(target).__name__}: {(missing or stray)[0]} is {'not in the backbone' if missing else 'left over'}",
            fix="report this with the model's name",
        )


def _with_adapter(whole: PreTrainedModel, problem: Problem, recipe: Recipe, name: str) -> Any:
    from peft import LoraConfig, get_peft_model

    lora = recipe.lora
    assert isinstance(lora, Lora)
    prefix = "" if whole is whole.base_model else f"{whole.base_model_prefix}."
    heads = [child for child, _ in whole.named_children() if prefix and child != whole.base_model_prefix]
    heads = [child for child in heads if any(True for _ in whole.get_submodule(child).parameters())]
    fresh = ["pooler"] if recipe.pooler == "fresh" and prefix and pooler_parameters(whole) else []
    settings = LoraConfig(
        r=lora.r,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.targets) if isinstance(lora.targets, tuple | list) else lora.targets,
        modules_to_save=[*heads, *fresh] or None,
        task_type=problem.adapter if prefix else None,
    )
    check_patterns("recipe: lora.targets", vars(settings), (name for name, _ in whole.named_modules()))
    try:
        made = get_peft_model(whole, settings)
    except ValueError as error:
        raise ModelError(
            f"peft does not know which layers of {whole.config.model_type} get an adapter ({error})",
            fix='name them: lora: {targets: [query, value]}, or targets: "all-linear"',
        ) from error
    made.peft_config["default"].base_model_name_or_path = name
    return made


def _load_adapter(whole: PreTrainedModel, folder: Path) -> Any:
    from peft import PeftModel

    return PeftModel.from_pretrained(whole, str(folder))


def _load_whole(folder: Path, problem: Problem, own: bool) -> PreTrainedModel:
    kind = _class(problem, own)
    with quiet_transformers():
        whole, info = kind.from_pretrained(
            folder, dtype=torch.float32, use_safetensors=True, trust_remote_code=False, output_loading_info=True
        )
    if lost := sorted(info["missing_keys"]):
        raise ModelError(f"{folder}: {lost[0]} is not in its files", fix="the folder is not whole; tune again")
    stored = load_file(folder / "model.safetensors") if (folder / "model.safetensors").exists() else {}
    loaded = whole.state_dict()
    for name, tensor in stored.items():
        if name in loaded and not torch.equal(tensor, loaded[name]):
            raise ModelError(f"{folder}: {name} was loaded with other values than its file holds", fix="report this")
    return whole


def _outside_learning_blocks(model: PreTrainedModel) -> list[nn.Module]:
    """All modules of a backbone but those of blocks that learn: what comes before them is fixed, dropout included.

    Some families (XLNet, T5) use one dropout before the first and after the last block: it is off in both places.
    """
    learning = (block for block in find_parts(model).blocks if any(p.requires_grad for p in block.parameters()))
    inside = {module for block in learning for module in block.modules()}
    return [module for module in model.modules() if module not in inside]
