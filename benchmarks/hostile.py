"""Hostile inputs, counted: the cases of tests/hostile, and many more mutants of every file than the tests try.

python benchmarks/hostile.py             # a few minutes: results/hostile.json, and docs/hostile.md from it
python benchmarks/hostile.py --write     # docs/hostile.md again from the results
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import argparse
import json
import logging
import time
import warnings
from collections import defaultdict
from tempfile import TemporaryDirectory
from typing import Any

RESULTS = ROOT / "benchmarks" / "results" / "hostile.json"
PAGE = ROOT / "docs" / "hostile.md"
MUTANTS = 1200
FEWER = {"hub json": 200, "hub csv": 200, "hub parquet": 200, "adapters": 300, "activations in HDF5": 40}
"""Of those that take a process or much time each."""

TEXT = """# Hostile inputs

Written by `python benchmarks/hostile.py` from `benchmarks/results/hostile.json`. What is tried, and what comes of it:

- **clear**: an error of ours (`VestigeError`) that says what was expected, what was found, and what to do;
- **right**: there is nothing to complain of, and the result is right;
- **raw**: any other exception, which a user would meet as a traceback;
- **hang**: more than {seconds} s of the processor, or {patience} s on the clock;
- **silently wrong**: a result where an error is due, an error where a result is due, or an error that says too little.

`make test` holds every row: the cases below are the parametrised tests of `tests/hostile`, and each must come out as
clear or as right, whichever is due.

## Cases

{cases}

## Mutants

Small valid files of every format are changed in one to three places, by a seeded generator: bytes swapped, cut and
exchanged, lines and fields doubled, removed or replaced, other values in JSON and YAML (NaN, huge numbers, nesting,
half a surrogate pair), brackets without end. Mutant *n* of a kind is the same in every run (`tests/hostile/fuzz.py`,
seeds 0 to tried - 1). A mutant that is read may be as good as its sample, so nobody judges what it was read as; what
is read must still pass the checks of a corpus and have a name for the cache. The slowest took {slowest:.1f} s of the
processor.

{mutants}
"""


def run() -> dict[str, Any]:
    """Try everything."""
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    with TemporaryDirectory() as place:
        os.environ["HF_DATASETS_CACHE"] = str(Path(place) / "datasets")
        return {"cases": _cases(Path(place)), "mutants": _mutants(Path(place))}


def _cases(place: Path) -> list[dict[str, Any]]:
    from hostile.case import outcome
    from hostile.test_cases import CASES

    rows: dict[str, dict[str, Any]] = defaultdict(_row)
    for number, case in enumerate(CASES):
        folder = place / f"case-{number}"
        folder.mkdir()
        verdict, said = outcome(lambda case=case, folder=folder: case.act(folder), case.says)
        _count(rows[case.kind], verdict, case.name, said)
    return [{"kind": kind, **row} for kind, row in rows.items()]


def _mutants(place: Path) -> list[dict[str, Any]]:
    from hostile.case import outcome
    from hostile.fuzz import targets

    from vestige.representations import hdf5_trial

    hdf5_trial.SECONDS = 3
    rows = []
    for target in targets():
        row, slowest = _row(), 0.0
        for seed in range(FEWER.get(target.name, MUTANTS)):
            act = target.prepare(place / "mutant", seed)
            start = time.process_time()
            verdict, said = outcome(act, either=True)
            slowest = max(slowest, time.process_time() - start)
            _count(row, verdict, f"mutant {seed}", said)
        rows.append({"kind": target.name, **row, "slowest": slowest})
        print(target.name, {key: row[key] for key in ("tried", "clear", "right", "raw", "hang")}, flush=True)
    return rows


def _row() -> dict[str, Any]:
    from hostile.case import VERDICTS

    return {"tried": 0, **dict.fromkeys(VERDICTS, 0), "failed": []}


def _count(row: dict[str, Any], verdict: str, name: str, said: str) -> None:
    row["tried"] += 1
    row[verdict] += 1
    if verdict not in ("clear", "right"):
        row["failed"].append([name, said])


def write(found: dict[str, Any]) -> None:
    """The page."""
    from hostile.case import PATIENCE, SECONDS, VERDICTS

    slowest = max(row["slowest"] for row in found["mutants"])
    cases = _table(found["cases"], VERDICTS)
    mutants = _table(found["mutants"], VERDICTS)
    PAGE.write_text(TEXT.format(seconds=SECONDS, patience=PATIENCE, slowest=slowest, cases=cases, mutants=mutants))


def _table(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> str:
    columns = ("tried", *columns)
    total = {"kind": "**all**", **{column: sum(row[column] for row in rows) for column in columns}}
    lines = [f"| kind | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    for row in [*rows, total]:
        lines.append(f"| {row['kind']} | {' | '.join(f'{row[column]:,}' for column in columns)} |")
    failed = [f"- {row['kind']}: {name}: `{said[:200]}`" for row in rows for name, said in row["failed"]]
    return "\n".join([*lines, *(["", *failed] if failed else [])])


def main() -> None:
    """Run, or only write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the page again, and run nothing")
    if not parser.parse_args().write:
        RESULTS.write_text(json.dumps(run(), indent=1, ensure_ascii=True) + "\n")
    write(json.loads(RESULTS.read_text()))


if __name__ == "__main__":
    main()
