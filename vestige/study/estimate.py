"""What a study is going to take, before it runs: time, disk and memory, as an estimate.

Work is counted in units that can be known from a plan: floating-point operations of a model, numbers that an analysis
reads. What a unit takes is measured: steps of earlier runs are kept in the cache (`timings.jsonl`), and where there
are none of a kind, matrix products are timed now and the rest is a rule of thumb. The table says which it was.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from vestige.cache import cache_folder
from vestige.files import load_json
from vestige.models.files.sources import model_folder
from vestige.products import Rates, rates
from vestige.representations.cost import SHARE, TOKENS, reading
from vestige.study.board import Board
from vestige.study.engines.settings import EngineSpec
from vestige.study.housekeeping import size_text
from vestige.study.plan import Plan
from vestige.study.status import KINDS, clock
from vestige.study.steps.analyse import Cell
from vestige.study.steps.compare import Compare
from vestige.study.steps.extract import Extract
from vestige.study.steps.load import Load
from vestige.study.steps.step import Step
from vestige.study.steps.tune import Tune

if TYPE_CHECKING:
    from vestige.study.run import Study

TIMINGS = "timings.jsonl"
_PER_NUMBER = 4e-7
"""Seconds that an analysis takes for a number it reads, where none of its kind has been timed."""
_KEPT = 2000
"""Timings that are looked at, the latest."""


@dataclass(frozen=True)
class Cost:
    """Of one step."""

    name: str
    """What is timed together: a kind of step, or an analysis."""
    units: float
    disk: int = 0
    memory: int = 0


@dataclass(frozen=True)
class _Model:
    parameters: int
    numbers: int
    """Of a word over all layers."""
    size: int


@lru_cache(maxsize=256)
def _model(source: str, revision: str | None) -> _Model:
    """Size of a model from its configuration and its files, without loading it."""
    try:
        folder = model_folder(source, revision)
        config = load_json((folder / "config.json").read_bytes())
        size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    except Exception:  # an adapter, an ELMo: only the estimate is lost
        return _Model(20_000_000, 3000, 90_000_000)
    width = config.get("hidden_size") or config.get("n_embd") or config.get("d_model") or 768
    depth = config.get("num_hidden_layers") or config.get("n_layer") or config.get("num_layers") or 12
    outside = (config.get("vocab_size") or 0) * width
    return _Model(max(size // 4 - outside, depth * 12 * width * width), (depth + 1) * width, size)


def costs(plan: Plan) -> dict[str, Cost]:
    """By key, what every step costs."""
    words = {name: sum(s["words"] for s in about["splits"].values()) for name, about in plan.corpora.items()}
    train = {name: about["splits"].get("train", {}).get("words", 0) for name, about in plan.corpora.items()}
    return {key: _cost(step, words, train) for key, step in plan.steps.items()}


def _cost(step: Step, words: Mapping[str, int], train: Mapping[str, int]) -> Cost:
    match step:
        case Load():
            model = _of(step.origin.source)
            return Cost("load", 1 + model.size / 5e8, memory=2 * model.size)
        case Tune():
            model = _model(step.base, None)
            tokens = TOKENS * train[step.task.partition("/")[0]] * step.recipe["epochs"]
            return Cost("tune", 6 * model.parameters * tokens, model.size, 5 * model.size)
        case Extract():
            model = _of(step.origin.source)
            disk = sum(step.rows.values()) * model.numbers * (2 if step.how["dtype"] == "float16" else 4)
            return Cost("extract", reading(model.parameters, words[step.corpus]), disk, 2 * model.size)
        case Cell():
            model = _of(step.side.origin.source)
            if not step.corpus:
                return Cost(step.analysis, max(1, model.size // 4), memory=model.size // 2)
            numbers = words[step.corpus] * model.numbers
            return Cost(step.analysis, numbers, memory=8 * numbers // 7)
        case Compare():
            return Cost(f"compare {step.base.analysis}", 1)
    raise TypeError(step.kind)


def _of(source: dict[str, Any] | None) -> _Model:
    while source is not None and "source" not in source:
        source = source.get("twin_of") or source.get("without_adapter")
    if source is None:
        return _Model(20_000_000, 3000, 90_000_000)
    return _model(source["source"], source.get("revision"))


@dataclass
class Pace:
    """Seconds a unit takes on this machine."""

    timed: dict[str, float]
    rates: Rates

    @classmethod
    def here(cls, root: Path) -> "Pace":
        found: dict[str, list[float]] = {}
        for line in _lines(root / TIMINGS)[-_KEPT:]:
            if line.get("units") and line.get("seconds") is not None:
                found.setdefault(line["name"], []).append(line["seconds"] / line["units"])
        return cls({name: median(some) for name, some in found.items()}, rates())

    def seconds(self, cost: Cost) -> float:
        """What a step takes."""
        if cost.name in self.timed:
            return self.timed[cost.name] * cost.units
        guesses = {"load": 1.0, "tune": 1 / (SHARE * self.rates.trained), "extract": 1 / (SHARE * self.rates.read)}
        return guesses.get(cost.name, 0.3 if cost.name.startswith("compare ") else _PER_NUMBER) * cost.units


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
    except (OSError, ValueError):
        return []


def keep_timings(plan: Plan, seconds: Mapping[str, float], root: Path) -> None:
    """Remember what steps took, by key."""
    known = costs(plan)
    lines = [
        json.dumps({"name": known[key].name, "units": known[key].units, "seconds": round(took, 4)})
        for key, took in seconds.items()
        if key in known
    ]
    if lines:
        with open(root / TIMINGS, "a", encoding="utf-8") as stream:
            stream.write("\n".join(lines) + "\n")


def estimate(study: "Study", settings: EngineSpec) -> dict[str, Any]:
    """The plan of a study with what is cached and what the rest may take, as plain values."""
    plan = study.plan()
    board, weights, pace = Board(plan.steps), costs(plan), Pace.here(cache_folder(study.cache))
    left = {*board.left}
    seconds = {key: pace.seconds(weights[key]) if key in left else 0.0 for key in board.steps}
    chain: dict[str, float] = {}
    for key, step in board.steps.items():
        chain[key] = seconds[key] + max((chain[other] for other in step.inputs if other in chain), default=0.0)
    longest, jobs = max(chain.values(), default=0.0), settings.jobs or 1
    kinds = {}
    for kind in KINDS:
        mine = [key for key, step in board.steps.items() if step.kind == kind]
        todo = [key for key in mine if key in left]
        kinds[kind] = {
            "steps": len(mine),
            "cached": len(mine) - len(todo),
            "to_do": len(todo),
            "seconds": round(sum(seconds[key] for key in todo), 1),
            "timed": sum(weights[key].name in pace.timed for key in todo),
            "disk": sum(weights[key].disk for key in todo),
            "memory": max((weights[key].memory for key in todo), default=0),
        }
    return {
        "study": study.spec.study,
        "folder": str(study.folder),
        "kinds": kinds,
        "jobs": jobs,
        "seconds_of_work": round(sum(seconds.values()), 1),
        "longest_chain": round(longest, 1),
        "seconds": round(max(longest, sum(seconds.values()) / jobs), 1),
        "steps": [
            {"key": key, "kind": step.kind, "title": step.title, "inputs": [*step.inputs], "threads": step.threads,
             "device": step.device, "cached": key not in left, "seconds": round(seconds[key], 2)}
            for key, step in board.steps.items()
        ],
    }  # fmt: skip


def plan_lines(study: "Study", settings: EngineSpec, as_json: bool = False) -> Iterator[str]:
    """The plan of a study, for a terminal or for a program."""
    found = estimate(study, settings)
    if as_json:
        yield json.dumps(found, indent=1)
        return
    yield f"{found['study']}: {len(found['steps'])} steps, results in {found['folder']}"
    yield f"  {'':18} {'steps':>6} {'cached':>7} {'to do':>6} {'time':>9} {'disk':>9} {'memory':>9}"
    for kind, title in KINDS.items():
        row = found["kinds"][kind]
        if row["steps"]:
            rest = [clock(row["seconds"]), size_text(row["disk"]), size_text(row["memory"])]
            yield f"  {title:18} {row['steps']:6} {row['cached']:7} {row['to_do']:6} " + " ".join(
                f"{value:>9}" for value in rest
            )
    todo = sum(row["to_do"] for row in found["kinds"].values())
    timed = sum(row["timed"] for row in found["kinds"].values())
    yield (
        f"  an estimate: {clock(found['seconds'])} with {found['jobs']} at a time; {clock(found['seconds_of_work'])} "
        f"of work, the longest chain takes {clock(found['longest_chain'])}"
    )
    yield f"  {timed} of {todo} steps are estimated from steps like them that this cache has seen, the others by rule"
