"""What the class of an analysis tells its reader: what it computes, its parameters, a study file that runs."""

import ast
import json
import math
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from inspect import cleandoc, getsource
from textwrap import dedent
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from vestige.analyses.base import Analysis
from vestige.corpus.catalog import find_entry
from vestige.corpus.types import Level

_WORDS = {int: "whole number", float: "number", str: "text", bool: "true or false", dict: "mapping", NoneType: "null"}
_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below", "min_length": "length at least"}

_EXAMPLES: dict[Level, tuple[str, str]] = {
    "token": ("treebank", "treebank/upos"),
    "tree": ("treebank", "treebank/head"),
    "sentence": ("opinions", "opinions/opinion"),
    "span_pair": ("{name: treebank, derive: dependency_arcs}", "arcs/dependency_arcs"),
    "span": ("{name: treebank, derive: pos_spans}", "spans/pos_spans"),
    "sentence_pair": ("rte", "rte/rte"),
    "text": ("wikitext2", "wikitext2/text"),
}
"""A corpus and a task of every level; built in, but for the last two."""


@dataclass(frozen=True)
class Parameter:
    """A field of an analysis, as a reader of a study file is told of it."""

    name: str
    kind: str
    """Type and bounds, in words."""
    default: str | None
    """As a study file would say it; None: it must be given."""
    meaning: str | None
    """The docstring under the field; None where there is no source to read it from."""


def about(kind: type[Analysis]) -> str:
    """The docstring of the class; the one that `dataclass` makes up is none."""
    text = kind.__doc__ or ""
    return "" if text.startswith(f"{kind.__name__}(") else cleandoc(text)


def parameters(kind: type[Analysis]) -> list[Parameter]:
    """All parameters, those of a base class first."""
    hints, meanings = get_type_hints(kind, include_extras=True), _meanings(kind)
    return [
        Parameter(field.name, spelled(hints[field.name]), _default(field), meanings.get(field.name, ""))
        for field in fields(kind)
    ]


def _default(field: Any) -> str | None:
    value = field.default if field.default_factory is MISSING else field.default_factory()
    if value is MISSING:
        return None
    return value if isinstance(value, str) else json.dumps(value)


def _meanings(kind: type[Analysis]) -> dict[str, str | None]:
    """The docstring under every field, from the sources of the class and of those it inherits from."""
    found: dict[str, str | None] = {}
    for each in reversed([each for each in kind.__mro__ if issubclass(each, Analysis)]):
        found |= field_docstrings(each)
    return found


def field_docstrings(kind: type) -> dict[str, str | None]:
    """The docstring under every field of a class; None for all where there is no source to read them from."""
    try:
        (tree,) = ast.parse(dedent(getsource(kind))).body
    except (OSError, TypeError):
        return dict.fromkeys(kind.__annotations__)
    assert isinstance(tree, ast.ClassDef)
    return {
        ast.unparse(line.target): cleandoc(str(getattr(under.value, "value", "")))
        for line, under in zip(tree.body, tree.body[1:], strict=False)
        if isinstance(line, ast.AnnAssign) and isinstance(under, ast.Expr)
    }


def spelled(hint: Any) -> str:
    """A type with its bounds in words."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        bounds = ", ".join(_bounds(inner[1:]))
        return f"{spelled(inner[0])} ({bounds})" if bounds else spelled(inner[0])
    if origin is Literal:
        return " | ".join(map(str, inner))
    if origin in (Union, UnionType):
        return " or ".join(map(spelled, inner))
    if origin in (tuple, list):
        return f"list of {spelled(inner[0])}"
    return _WORDS.get(origin or hint, getattr(hint, "__name__", str(hint)))


def _bounds(given: tuple[Any, ...]) -> Iterator[str]:
    for bound in (each for one in given for each in getattr(one, "metadata", [one])):
        for name, words in _BOUNDS.items():
            limit = getattr(bound, name, None)
            if limit is not None and limit != math.inf:
                yield f"{words} {limit}"


def _example(kind: type[Analysis]) -> tuple[str, str]:
    """A corpus and a task that suit it; none where it reads no corpus."""
    if kind.example:
        return kind.example.partition("/")[0], kind.example
    if not kind.levels:
        return "", ""
    return _EXAMPLES[min(kind.levels, key=lambda level: level in ("sentence_pair", "text"))]


def study_file(kind: type[Analysis]) -> str:
    """A study that runs it with its defaults: MiniLM before and after tuning on opinions, on a built-in corpus."""
    source, task = _example(kind)
    corpora = {task.partition("/")[0]: source} if task else {}
    models = ["  base: minilm"]
    if "trainable_model" not in kind.needs:
        models.append("  tuned: {finetune: {of: base, task: opinions/opinion}}")
        corpora["opinions"] = "opinions"
    entry = find_entry(source) if source else None
    hint = f"  # to get it: vestige ls corpora {source}" if entry and not entry.builtin else ""
    asked = [f"tasks: [{task}]"] if task else []
    asked += [f"{given.name}: <{given.kind}>" for given in parameters(kind) if given.default is None]
    return "\n".join(
        [
            f"study: {kind.name}",
            "models:",
            *models,
            "corpora:",
            *(f"  {name}: {said}{hint if said == source else ''}" for name, said in corpora.items()),
            "analyses:",
            f"  - {kind.name}: {{{', '.join(asked)}}}",
        ]
    )
