"""What engines cost: planning a large study, a step that does nothing, and two processes beside one.

    python benchmarks/engines.py                 # measures, writes benchmarks/results/engines.json and docs/engines.md
    python benchmarks/engines.py --plan          # planning alone; the rest stays as it is kept
    python benchmarks/engines.py --write         # the page again from the kept results

Wall-clock: processes are started and waited for. Run it on a quiet machine. Planning, one thread without waiting, is
also given in processor time, which other programs disturb less.
"""

import os

os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import yaml

HERE = Path(__file__).parent
RESULTS, PAGE = HERE / "results" / "engines.json", HERE.parent / "docs" / "engines.md"
STEPS = 200
REPEATS = 3
TUNINGS = 1


def large_study() -> dict[str, Any]:
    """At least 2,000 cells: a base, three tasks with five settings and eight runs each, six analyses of five tasks."""
    tasks = ("opinions/opinion", "acceptability/acceptable", "treebank/upos")
    models: dict[str, Any] = {"base": "minilm"}
    for number in range(15):
        recipe = {"epochs": 1, "rate": 1e-5 * (1 + number)}
        models[f"tuned{number}"] = {"finetune": {"of": "base", "task": tasks[number % 3], "recipe": recipe}, "runs": 8}
    words = ["treebank/upos", "treebank/xpos", "treebank/deprel"]
    sentences = ["opinions/opinion", "acceptability/acceptable"]
    analyses = [
        {"layer_probe": {"tasks": words}},
        {"layer_probe": {"tasks": words, "protocol": "durrani"}},
        {"description_length": {"tasks": words}},
        {"sentence_probe": {"tasks": sentences}},
        {"similarity": {"tasks": ["treebank/upos", *sentences]}},
        {"attention": {"tasks": ["treebank/upos"]}},
        {"neurons": {"tasks": words}},
    ]
    corpora = {name: name for name in ("treebank", "opinions", "acceptability")}
    return {"study": "large", "models": models, "corpora": corpora, "analyses": analyses}


def plan_seconds(folder: Path) -> dict[str, Any]:
    """`vestige run --plan` as a user waits for it, program start and all."""
    (folder / "large.yaml").write_text(yaml.safe_dump(large_study()))
    command = [sys.executable, "-m", "vestige.cli", "run", str(folder / "large.yaml"), "--plan", "--json"]
    taken, worked = [], []
    for _ in range(REPEATS):
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        said = subprocess.run([*command, "--cache", str(folder / "none")], capture_output=True, text=True, check=True)
        taken.append(time.perf_counter() - began)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        worked.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    kinds = json.loads(said.stdout)["kinds"]
    return {
        "seconds": taken,
        "processor": worked,
        "load": os.getloadavg()[0],
        "cells": kinds["analyse"]["steps"],
        "steps": sum(k["steps"] for k in kinds.values()),
    }


def step_seconds(engine: str, folder: Path) -> dict[str, Any]:
    """Seconds a step that does nothing takes: it is claimed, found to be there, answered and noted."""
    from vestige.cache import writing
    from vestige.study.board import Board
    from vestige.study.driver import Driver
    from vestige.study.engines.inline import Inline
    from vestige.study.engines.settings import EngineSpec, make_engine
    from vestige.study.record import Record
    from vestige.study.screen import Screen
    from vestige.study.space import Space
    from vestige.study.status import Status
    from vestige.study.steps.load import Load
    from vestige.study.steps.origin import Origin

    cache = folder / engine / "cache"
    cache.mkdir(parents=True)
    steps = [
        Load(key=f"step{n}", cache=str(cache), origin=Origin("m", 0, f"step{n}", {"source": "x"}))
        for n in range(STEPS + 4)
    ]
    record, status = Record(folder / engine / "log"), Status()
    made = make_engine(EngineSpec(name=engine, jobs=2), record, {})
    boards = [Board({step.key: step for step in some}) for some in (steps[:4], steps[4:])]
    for step in steps:
        with writing(step.folder) as place:
            (place / "model.json").write_text("{}")
    close, made.close = made.close, lambda: None  # type: ignore[method-assign]
    taken = []
    for board in boards:  # the first starts the workers
        began = time.perf_counter()
        Driver(board, made, Inline({}), record, Space.of({}, None), Screen(record, status)).run()
        taken.append(time.perf_counter() - began)
    close()
    return {"steps": STEPS, "seconds": taken[1], "milliseconds": 1000 * taken[1] / STEPS, "start": taken[0]}


def tuning_seconds(folder: Path) -> dict[str, Any]:
    """Six fine-tunings of MiniLM with one thread each, in one process and in two; programs start and load alike."""
    tune = {"of": "base", "task": "opinions/opinion", "recipe": {"epochs": 3, "rate": 1e-5}}
    study = {
        "study": "tunings",
        "models": {"base": "minilm", "tuned": {"finetune": tune, "runs": 6}},
        "corpora": {"opinions": {"name": "opinions", "sample": 200}},
        "compute": {"model_threads": 1},
        "analyses": [{"sentence_probe": {"tasks": ["opinions/opinion"]}}],
    }
    (folder / "tunings.yaml").write_text(yaml.safe_dump(study))
    taken: dict[int, list[float]] = {1: [], 2: []}
    for repeat in range(TUNINGS):
        for jobs in taken:
            place = folder / f"tunings-{repeat}-{jobs}"
            command = [sys.executable, "-m", "vestige.cli", "run", str(folder / "tunings.yaml"), "--until", "tune"]
            began = time.perf_counter()
            subprocess.run(
                [*command, "--engine", "local", "--jobs", str(jobs), "--cache", f"{place}-cache", "--out", str(place)],
                check=True, capture_output=True,
            )  # fmt: skip
            taken[jobs].append(time.perf_counter() - began)
    return {"one": taken[1], "two": taken[2], "ratio": median(taken[1]) / median(taken[2])}


def write(found: dict[str, Any]) -> None:
    plan, tuning = found["plan"], found["tunings"]
    rows = [
        ("`vestige run STUDY --plan`, a study of "
         f"{plan['cells']:,} cells ({plan['steps']:,} steps)"
         + (f", processor time ({median(plan['seconds']):.1f} s by the clock, "
         f"{plan['load']:.0f} programs running)" if "processor" in plan else ""),
         f"{median(plan.get('processor', plan['seconds'])):.1f} s", "under 5 s"),
        ("a step that does nothing, `local`, two processes", f"{found['local']['milliseconds']:.0f} ms", "under 50 ms"),
        ("the same on `ray`, this machine", f"{found['ray']['milliseconds']:.0f} ms", "under 200 ms"),
        (f"six fine-tunings, one process ({median(tuning['one']):.0f} s) beside two ({median(tuning['two']):.0f} s)",
         f"{tuning['ratio']:.2f}x", "at least 1.7x"),
    ]  # fmt: skip
    table = "\n".join(f"| {what} | {figure} | {goal} |" for what, figure, goal in rows)
    PAGE.write_text(
        "# What engines cost\n\nWritten by `python benchmarks/engines.py` from `benchmarks/results/engines.json`: "
        f"wall-clock seconds, medians of {REPEATS} repeats (planning) and {TUNINGS} (fine-tuning); "
        f"{found['cores']} cores.\n\n"
        f"| work | measured | goal |\n|---|--:|--:|\n{table}\n"
    )


def main() -> None:
    """Measure all, keep the results, write the page."""
    if "--write" in sys.argv:
        return write(json.loads(RESULTS.read_text()))
    if "--plan" in sys.argv:
        with TemporaryDirectory() as temporary:
            found = {**json.loads(RESULTS.read_text()), "plan": plan_seconds(Path(temporary))}
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
        return write(found)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        found = {"cores": os.cpu_count(), "plan": plan_seconds(folder)}
        print(found, flush=True)
        for engine in ("local", "ray"):
            found[engine] = step_seconds(engine, folder)
            print(engine, found[engine], flush=True)
        found["tunings"] = tuning_seconds(folder)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    write(found)
    print(PAGE.read_text())


if __name__ == "__main__":
    main()
