"""Pages of the reference that are made from the code itself, so that they cannot differ from it.

A page per analysis from its class; the keys of a study file from the classes that check it; corpora, formats, derived
tasks and recipes from their registers; the public Python names.
"""

import dataclasses
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from inspect import cleandoc, isclass
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

import vestige
from vestige.analyses.base import Analysis
from vestige.analyses.guide import about, field_docstrings, parameters, spelled, study_file
from vestige.analyses.metric import Metric
from vestige.analyses.registry import analysis_names, find_analysis
from vestige.corpus.catalog import entries
from vestige.finetune.recipe import Lora, Recipe
from vestige.listing import KINDS
from vestige.models.encoders.reading import Reading
from vestige.study.engines.settings import EngineSpec
from vestige.study.spec import CompareSpec, ComputeSpec, CorpusSpec, FinetuneSpec, ModelSpec, StudySpec

EXAMPLES = {
    StudySpec: """
study: my_study
models: {base: minilm}
corpora: {treebank: treebank}
analyses:
  - layer_probe: {tasks: [treebank/upos]}
""",
    ModelSpec: """
models:
  base: minilm                    # short for {load: minilm}
  tuned: {load: my-finetuned-bert, reference: base}
  random twin: {random_twin_of: base}
""",
    Reading: """
models:
  gpt: {load: gpt2, read: {final_norm: pre, sink: keep}}
""",
    FinetuneSpec: """
models:
  base: minilm
  tuned:
    finetune: {of: base, task: opinions/opinion, recipe: mosbach2020_sst2}
    runs: 3
""",
    Recipe: """
models:
  base: minilm
  tuned:
    finetune:
      of: base
      task: opinions/opinion
      recipe: {like: mosbach2020_sst2, rate: 1.0e-4, epochs: 1, batch: 8}
""",
    Lora: """
models:
  base: minilm
  tuned:
    finetune: {of: base, task: opinions/opinion, recipe: {lora: {r: 8, merge: true}}}
""",
    CorpusSpec: """
corpora:
  treebank: treebank              # short for {name: treebank}
  mine: {files: {train: train.conllu, test: test.conllu}, dev: 0.1, sample: {train: 2000}}
  shift: {name: treebank, derive: bigram_shift}
""",
    ComputeSpec: """
compute: {threads: 1, model_threads: 2, device: cpu, dtype: float32}
""",
    CompareSpec: """
compare: {alpha: 0.05, margins: {accuracy: 0.01}}
""",
    EngineSpec: """
engine: {name: local, jobs: 4, disk: 20 GB}
""",
}
"""An example of every part of a study file, by the class that checks it."""

SECTIONS: dict[str, type] = {
    "the whole file": StudySpec,
    "models: NAME": ModelSpec,
    "models: NAME: read": Reading,
    "models: NAME: finetune": FinetuneSpec,
    "models: NAME: finetune: recipe": Recipe,
    "models: NAME: finetune: recipe: lora": Lora,
    "corpora: NAME": CorpusSpec,
    "compute": ComputeSpec,
    "compare": CompareSpec,
    "engine": EngineSpec,
}

LISTED = {
    "corpora": "Corpora of the catalog",
    "formats": "Formats of corpora",
    "derived": "Tasks derived from trees and text",
    "recipes": "Recipes of fine-tuning",
}


HERE = Path(__file__).parent
RUNS = {
    "what_happened": "lost, moved or re-encoded, in four fine-tunes",
    "durrani2020": "how few neurons are enough, and where they are",
    "durrani2021": "layers and neurons before and after tuning on six GLUE tasks",
    "mosbach2020": "sentence-level knowledge, attention and the language model",
    "merchant2020": "edges, trees, code lengths, similarity in and out of the domain",
    "merchant2020_depth": "how deep tuning must reach",
    "public_corpora": "two public corpora, both protocols",
}
"""Kept runs of `examples` whose pages are part of the site, with what they are about."""


def write_pages(target: Path) -> None:
    """All generated pages under `target`; a page that is as it was is not touched."""
    _put(target / "runs" / "index.md", runs_page())
    for name in RUNS:
        _put(target / "runs" / f"{name}.md", run_page(name))
        images = HERE.parent / "examples" / name / "images"
        if images.is_dir():
            shutil.copytree(images, target / "runs" / "images" / name, dirs_exist_ok=True)
    names = [name for name in analysis_names() if find_analysis(name).__module__.startswith("vestige.")]
    _put(target / "analyses" / "index.md", analyses_page(names))
    for name in names:
        _put(target / "analyses" / f"{name}.md", analysis_page(find_analysis(name)))
    _put(target / "study_file.md", study_file_page())
    _put(target / "registers.md", registers_page())
    _put(target / "python.md", python_page())


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A pipe table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|") or " "


def runs_page() -> str:
    """The kept runs, and their pages below it."""
    rows = [[f"[{name}]({name}.md)", said] for name, said in RUNS.items()]
    parts = [
        "# Kept runs",
        "Studies on MiniLM that were run whole, with their pages as the tool wrote them from the tables. Study files "
        "and tables lie in `examples` of the repository. The paper's studies are those of `vestige reproduce PAPER "
        "--scale small --model minilm`.",
        table(["run", "what it is about"], rows),
        "```{toctree}\n:hidden:\n\n" + "\n".join(RUNS) + "\n```",
    ]
    return "\n\n".join(parts) + "\n"


def run_page(name: str) -> str:
    """The page of a kept run; files beside it are named, not linked."""
    text = (HERE.parent / "examples" / name / "README.md").read_text(encoding="utf-8")
    text = text.replace("](images/", f"](images/{name}/")
    return re.sub(r"(?<!!)\[([^\]]*)\]\((?!https?:|#|images/)([^)]*)\)", rf"`examples/{name}/\2`", text)


def kept(name: str) -> list[str]:
    """What a kept run shows of an analysis."""
    index = json.loads((HERE / "images" / "analyses" / "index.json").read_text(encoding="utf-8"))
    if name not in index:
        return []
    one = index[name]
    run = f"[{one['example']}](../runs/{one['example']}.md)"
    shown = one.get("table") or f"![{one['caption']}](../../images/analyses/{name}.svg)"
    return ["## What it shows", shown, f"*{one['caption']}. From the kept run {run}: {one['source']}*"]


def analyses_page(names: Sequence[str]) -> str:
    """All analyses in a table, and their pages below it."""
    rows = []
    for name in names:
        kind = find_analysis(name)
        models = "base and tuned" if kind.models == 2 else "one at a time"
        rows.append([f"[{name}]({name}.md)", about(kind).split("\n\n")[0], ", ".join(kind.levels) or "none", models])
    parts = [
        "# Analyses",
        "Every analysis is one class. Its page is made from it: what it computes, its parameters with types, bounds "
        "and defaults, every number that it reports, and how base and tuned are compared.",
        table(["analysis", "what it computes", "tasks at level", "models"], rows),
        "```{toctree}\n:hidden:\n\n" + "\n".join(names) + "\n```",
    ]
    return "\n\n".join(parts) + "\n"


def analysis_page(kind: type[Analysis]) -> str:
    """All that an analysis says of itself."""
    given = [
        [f"`{one.name}`", one.kind, "required" if one.default is None else f"`{one.default}`", _yaml(one.meaning)]
        for one in parameters(kind)
    ]
    shown = [metric for metric in kind.metrics if metric.role != "remark"]
    remarks = [[f"`{metric.name}`", metric.remark] for metric in kind.metrics if metric.role == "remark"]
    parts = [
        f"# {kind.name}",
        f"**{kind.title}**",
        about(kind),
        "\n".join(f"- *{name}*: {said}" for name, said in _facts(kind)),
        *kept(kind.name),
        "## A study file that runs it",
        f"```yaml\n{study_file(kind)}\n```",
        f"On two models at hand: `vestige compare BASE TUNED --corpus CORPUS --analysis {kind.name}`.",
        "## Parameters",
        table(["parameter", "type and bounds", "default", "meaning"], given) if given else "None.",
        "## Metrics",
        table(["metric", "what it is", "unit", "along", "margin", "compared by"], map(_metric, shown)),
    ]
    if remarks:
        parts += ["Counts of what was lost or left out; a report says so where one is above 0:"]
        parts += [table(["count", "what the report says"], remarks)]
    return "\n\n".join(parts) + "\n"


def _facts(kind: type[Analysis]) -> Iterator[tuple[str, str]]:
    labels = "it reads labels" if kind.uses_labels else "it reads words alone, no labels"
    yield "Source", kind.source
    yield "Tasks", f"at level {', '.join(kind.levels)}; {labels}" if kind.levels else "none: it reads no corpus"
    alone = ", or a model alone" if kind.alone else ""
    yield "Models", f"a model and its reference{alone}" if kind.models == 2 else "one at a time"
    yield "Reads", ", ".join(sorted(kind.needs)).replace("_", " ")


def _yaml(meaning: str | None) -> str:
    """A docstring in the words of a study file."""
    return (meaning or "").replace("None:", "null:")


def _metric(metric: Metric) -> list[str]:
    axes = [" by ".join(filter(None, (axis.name, axis.second))) or "the whole model" for axis in metric.along]
    better = "" if metric.better == "neither" else f"; {metric.better} is better"
    role = "" if metric.role == "result" else f" ({metric.role})"
    margin = "" if metric.margin is None else f"{metric.margin:g}"
    if metric.margin is not None and metric.unit == "percent":
        margin = f"{100 * metric.margin:g} points"
    compared = "" if metric.compared is None else type(metric.compared).__name__
    what = f"{metric.title}{better}. {metric.about}"
    return [f"`{metric.name}`{role}", what, metric.unit, ", ".join(axes), margin, compared]


def study_file_page() -> str:
    """Every key of a study file, from the classes that check it."""
    parts = [
        "# The study file",
        "A study file is YAML: models, corpora and analyses by name, and how they are run and compared. It is checked "
        "before anything is computed; a key that is not known is an error that names the nearest one. `${NAME}` is "
        "taken from the environment; paths are relative to the file. This page is made from the classes that check it.",
        "```sh\nvestige run examples/public_corpora/study.yaml --plan\n"
        "vestige run examples/public_corpora/study.yaml\n```",
        "An analysis is written `- NAME: {tasks: [corpus/task, ...], models: [...], parameter: value}`; its "
        "parameters are on [its own page](analyses/index.md). `models` names those that it is run on; without it, all.",
    ]
    for title, kind in SECTIONS.items():
        keys = table(["key", "type", "default", "meaning"], _keys(kind))
        parts += [f"## `{title}`", cleandoc(kind.__doc__ or ""), f"```yaml{EXAMPLES[kind]}```", keys]
    return "\n\n".join(parts) + "\n"


def _keys(kind: type) -> Iterator[list[str]]:
    meanings = field_docstrings(kind)
    if issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            default = "required" if field.default is PydanticUndefined else _default(field.default)
            hint = get_type_hints(kind, include_extras=True)[name]
            yield [f"`{name}`", spelled(hint), default, _yaml(meanings.get(name))]
        return
    hints = get_type_hints(kind, include_extras=True)
    for one in dataclasses.fields(kind):
        default = "required" if one.default is dataclasses.MISSING else _default(one.default)
        yield [f"`{one.name}`", spelled(hints[one.name]), default, _yaml(meanings.get(one.name))]


def _default(value: Any) -> str:
    if dataclasses.is_dataclass(value) or isinstance(value, BaseModel):
        return "its defaults"
    return "empty" if value == "" else f"`{json.dumps(value)}`"


def registers_page() -> str:
    """What `vestige ls` lists."""
    parts = ["# Corpora, formats, derived tasks, recipes", "What `vestige ls` lists, as of this version."]
    for name, title in LISTED.items():
        found = _catalog() if name == "corpora" else KINDS[name](Path("runs"))
        rows = [[f"`{one}`", said] for one, said in found]
        parts += [f"## {title}", f"`vestige ls {name}`", table([name, "what it is"], rows)]
    return "\n\n".join(parts) + "\n"


def _catalog() -> Iterator[tuple[str, str]]:
    for entry in entries():
        tasks = ", ".join(f"{task} ({level})" for task, level in entry.tasks.items())
        yield entry.name, f"{entry.title}; tasks {tasks}; {'built in' if entry.builtin else 'to be fetched'}"


def python_page() -> str:
    """The public names."""
    parts = [
        "# Python",
        "`import vestige as vg` gives all of these; importing the package loads neither torch nor transformers.",
    ]
    for name in vestige.__all__:
        if name == "__version__":
            continue
        thing = getattr(vestige, name)
        directive = "autoclass" if isclass(thing) else "autofunction"
        members = "\n   :members:\n   :exclude-members: set_fit_request, set_score_request" if isclass(thing) else ""
        parts.append(f"```{{eval-rst}}\n.. {directive}:: {thing.__module__}.{thing.__qualname__}{members}\n```")
    return "\n\n".join(parts) + "\n"
