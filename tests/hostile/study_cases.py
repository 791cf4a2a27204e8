"""Hostile study files: YAML, settings out of bounds, parts that clash."""

import copy
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from hostile.case import Case
from hostile.odd_files import CONTENTS, PLACES
from hostile.study import STUDY
from vestige.study.spec import make_spec, read_spec
from vestige.study.tune import find_recipe

PLAIN = yaml.safe_load(STUDY)


def _file(text: str | bytes) -> Callable[[Path], Any]:
    def act(folder: Path) -> Any:
        path = folder / "study.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        return read_spec(path)

    return act


def _odd(make: Callable[[Path], None]) -> Callable[[Path], Any]:
    def act(folder: Path) -> Any:
        make(folder / "study.yaml")
        return read_spec(folder / "study.yaml")

    return act


def bomb(levels: int = 12, width: int = 10) -> str:
    """Aliases of aliases: 10**12 values."""
    rows = [f"a0: &a0 [{', '.join(['x'] * width)}]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * width)}]" for i in range(1, levels)]
    return "\n".join(rows)


def _merges(levels: int = 12, width: int = 10) -> str:
    rows = ["a0: &a0 {x: 1, y: 2}"]
    rows += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * width)}], k{i}: 1}}" for i in range(1, levels)]
    return "\n".join(rows)


def _files() -> Iterator[Case]:
    kind = "study files"
    for what, make in PLACES.items():
        yield Case(kind, what, _odd(make))
    for what, make in CONTENTS.items():
        yield Case(kind, what, _odd(make))
    yield Case(kind, "an alias bomb", _file(bomb()), "aliases")
    yield Case(kind, "a bomb of merges", _file(_merges()), "aliases")
    yield Case(kind, "a mapping that holds itself", _file("&a {study: *a}"), "holds itself")
    yield Case(kind, "a list that holds itself", _file("study: &a [*a]"), "holds itself")
    yield Case(
        kind, "a model name twice", _file(STUDY.replace("  twin:", "  base: minilm\n  twin:")), "'base' occurs twice"
    )
    yield Case(kind, "a setting twice", _file(STUDY + "limit: 5\n"), "'limit' occurs twice")
    yield Case(kind, "code in a tag", _file("study: !!python/object/apply:os.system [echo]"), "not YAML")
    for tag, value in (
        ("int", "''"),
        ("timestamp", "x"),
        ("bool", "x"),
        ("float", "x"),
        ("binary", "x"),
        ("set", "[a]"),
    ):
        yield Case(kind, f"!!{tag} of {value}", _file(f"study: !!{tag} {value}"))
    yield Case(kind, "two documents", _file(f"{STUDY}\n---\n{STUDY}"), "not YAML")
    yield Case(kind, "a list", _file("- study: x\n"), "mapping")
    yield Case(kind, "a text", _file("study"), "mapping")
    yield Case(kind, "Latin-1", _file("study: caf\xe9".encode("latin-1")), "not UTF-8")
    yield Case(kind, "half a surrogate pair", _file('study: "\\ud800"'), "")
    yield Case(kind, "tabs for spaces", _file(STUDY.replace("  ", "\t")), "not YAML")
    yield Case(kind, "a BOM", lambda folder: _file("\ufeff" + STUDY)(folder).study == "trial", None)
    yield Case(kind, "anchors and merges as they are meant", _merged, None)


def _merged(folder: Path) -> bool:
    text = STUDY.replace("compare: {", "compare: &all {").replace("limit: 10", "limit: 10")
    return _file(text)(folder).compare.resamples == 99


DELETED = object()


def _set(path: tuple[Any, ...], value: Any) -> Callable[[Path], Any]:
    """The study with one value changed."""

    def act(folder: Path) -> Any:
        raw = copy.deepcopy(PLAIN)
        inside: Any = raw
        for key in path[:-1]:
            inside = inside[key]
        if value is DELETED:
            del inside[path[-1]]
        else:
            inside[path[-1]] = value
        return make_spec(raw, base=folder)

    return act


NAN, INF = float("nan"), float("inf")
BOUNDS: dict[tuple[Any, ...], tuple[Any, ...]] = {
    ("compare", "alpha"): (5, 0, -0.1, NAN, INF, "x", True, None, 0.9),
    ("compare", "margins"): (NAN, -1, "x", [0.1], {"accuracy": NAN}, {"accuracy": 0}, {"accuracy": INF}, {"nobody": 0.1}),
    ("compare", "margin"): (0.005,),
    ("compare", "confidence"): (0, 1, 1.5, -0.5, NAN, 0.1),
    ("compare", "resamples"): (0, -1, 1, 1.5, 10**9, True),
    ("compare", "seed"): (-1, 2**40, 1.5, "x"),
    ("limit",): (-5, 0, 1.5, "x", True, []),
    ("compute", "threads"): (0, -1, 1.5, "x"),
    ("compute", "model_threads"): (0, -2),
    ("compute", "dtype"): ("float8", 32, None),
    ("models", "tuned", "runs"): (0, -1, 1.5, "x"),
    ("models", "tuned", "finetune", "keep"): ([], [-1], "x", [1.5], 3),
    ("models", "tuned", "finetune", "of"): ("tuned", "nobody", None, []),
    ("models", "tuned", "finetune", "task"): ("opinions", "nobody/x", None, "/"),
    ("models", "tuned", "finetune", "recipe"): (
        "nobody", {"like": "nobody"}, {"rate": -1}, {"rate": NAN}, {"epochs": 0}, {1: 2}, [], 3, {"like": []}, {"lora": 3},
    ),
    ("models", "seeds", "load"): ([], [None], [1], [[]], {}),
    ("models", "seeds", "pretrain_seed"): (0,),
    ("models", "deep", "pretrain_seed"): (-1, "x"),
    ("models", "steps", "steps"): ([], 3, "x", [-1], [None], [[]], [5, 5]),
    ("models", "deep", "read"): ({"final_norm": "x"}, {"nothing": 1}, [], 3, {"part": []}),
    ("models", "deep", "reference"): ("deep", "nobody", [], 3),
    ("models", "deep", "device_map"): (3, [], {"": []}),
    ("models", "base"): (None, 3, {}, [], {"load": "a", "random_twin_of": "twin"}, {"checkpoints": 3}, {"checkpoints": []}),
    ("models", "twin"): ({"random_twin_of": "twin"}, {"random_twin_of": []}, {"adapter_off": "nobody"}),
    ("models",): (None, [], {}, "base", [{"base": "minilm"}]),
    ("corpora",): (None, [], {}, "treebank"),
    ("corpora", "treebank"): (None, 3, [], {}, {"name": "a", "files": "b"}, {"files": 3}, {"files": {"train": 3}}),
    ("corpora", "opinions", "dev"): (NAN, 0, 1, -1, "x", True),
    ("corpora", "opinions", "sample"): (0, -1, "x", {"train": -1}, {"train": None}, []),
    ("corpora", "opinions", "seed"): (-1, "x", 2**40),
    ("corpora", "own", "options"): ([], "x", {"format": "tsv"}, {"seed": 1}, {1: 2}),
    ("corpora", "made", "derive"): ({}, [], {"a": {}, "b": {}}, 3, {"a": None}, ""),
    ("analyses",): ([], None, {}, "layer_probe", [None], [[]], [{}], [{"layer_probe": []}], [{1: {}}], [{"a": 1, "b": 2}]),
    ("analyses", 0, "layer_probe", "tasks"): (
        ["treebank/upos", "treebank/upos"], "upos", ["treebank"], 3, {"treebank": "upos"}, [3], None,
    ),
    ("analyses", 0, "layer_probe", "models"): (["base", "base"], ["seeds", "seeds#0"], ["nobody"], 3, [3], {}),
    ("analyses", 0, "layer_probe", "seeds"): (0, -1, "x", 1.5, None),
    ("analyses", 1): ({"layer_probe": {"tasks": ["treebank/upos"], "seeds": 2}}, {"nothing": {}}),
    ("study",): ("a/b", "", None, 3, [], "..", "."),
    ("about",): ([], 3),
    ("nothing",): (1,),
}  # fmt: skip


def _settings() -> Iterator[Case]:
    for path, values in BOUNDS.items():
        for value in values:
            yield Case("settings", f"{'.'.join(map(str, path))} = {value!r:.40}", _set(path, value))


def _models(models: dict[str, Any], says: str, **changes: Any) -> Callable[[Path], Any]:
    return lambda folder: make_spec({**copy.deepcopy(PLAIN), "models": models, **changes}, base=folder)


def _clashes() -> Iterator[Case]:
    task = "treebank/upos"
    plain: dict[str, Any] = {"corpora": {"treebank": "treebank"}, "analyses": [{"layer_probe": {"tasks": [task]}}]}

    def clash(name: str, models: dict[Any, Any], says: str) -> Case:
        return Case("clashes", name, lambda folder: make_spec({"study": "x", "models": models, **plain}), says)

    yield clash(
        "adapters of each other", {"a": {"adapter_off": "b"}, "b": {"adapter_off": "a"}}, "made from each other"
    )
    yield clash(
        "twins of each other", {"a": {"random_twin_of": "b"}, "b": {"random_twin_of": "a"}}, "made from each other"
    )
    yield clash(
        "three that are tuned from each other",
        {n: {"finetune": {"of": o, "task": task}} for n, o in (("a", "b"), ("b", "c"), ("c", "a"))},
        "made from each other",
    )
    yield clash("a member beside its family", {"a": ["minilm", "minilm"], "a#0": "minilm"}, "called 'a#0'")
    yield clash("a step beside its family", {"a@5": "minilm"}, "called 'a@5'")
    yield clash("a name that is empty", {"": "minilm"}, "called ''")
    yield clash("a name that is false", {False: "minilm"}, "called False")
    yield clash(
        "replicates of two sizes", {"a": ["minilm"] * 2, "b": {"load": ["minilm"] * 3, "reference": "a"}}, "replicates"
    )

    def nested(folder: Path) -> Any:
        inner: Any = "x"
        for _ in range(5000):
            inner = {"a": inner}
        return make_spec({"study": "x", "models": {"a": "minilm"}, "about": inner, **plain})

    def itself(folder: Path) -> Any:
        raw: dict[str, Any] = {"study": "x", "models": {"a": "minilm"}, **plain}
        raw["about"] = raw
        return make_spec(raw)

    yield Case("clashes", "a dictionary of 5,000 levels", nested, "deep")
    yield Case("clashes", "a dictionary that holds itself", itself, "deep")
    for name, change in (
        ("an unset variable", "rate=${NOT_SET_ANYWHERE}"), ("NaN", "rate=nan"), ("no key", "=3"), ("no value", "rate"),
        ("a list", "rate=[1]"), ("an open bracket", "rate=["), ("a number of 5,000 digits", f"epochs={'9' * 5000}"),
        ("an alias", "rate=*a"), ("minus one", "epochs=-1"), ("deep brackets", "rate=" + "[" * 3000),
    ):  # fmt: skip
        yield Case("command line", f"--set with {name}", lambda folder, change=change: find_recipe(None, [change]))
    yield Case(
        "clashes",
        "a variable of the environment that is not there",
        _set(("about",), "${NOT_SET_ANYWHERE}"),
        "is not set",
    )
    assert "NOT_SET_ANYWHERE" not in os.environ


CASES = [*_files(), *_settings(), *_clashes()]
