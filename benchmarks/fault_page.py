"""`docs/faults.md`: the kept results as tables."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from statistics import mean
from typing import Any

import fault_study
from damage import BAD, COMMON, GOOD, PATIENCE, WAYS, faults
from damage import KINDS as ARTEFACTS

GOAL = 20
"""Moments at which every fault is tried."""
PAGE = Path(__file__).parents[1] / "docs" / "faults.md"
TEXT = """# What becomes of a study when machines fail

*Written by `python benchmarks/faults.py` from benchmarks/results/faults.json. Do not edit.*

## At random moments of a run

A small study (a tiny BERT, two runs of its fine-tuning and a checkpoint, hidden states, layer probes, a comparison: 13
steps) is run to its end once. Then, for every fault and moment, it is started with an empty cache, the fault happens
at a moment drawn from the whole length of the run, and the study is started again where its driver has ended. On Ray
and SLURM, where every step waits for a program to start, the study has one run of fine-tuning (9 steps), and is started
with what a run had finished at a random point; the fault happens while the next steps run. All tables are then compared
with those of the undisturbed run, byte for byte. Faults with fewer than {goal} tries have not been tried to the end.

{moments}

*Same bytes*: the study came to its end with the tables of the undisturbed run. *Clear error*: of these tries, those
where the driver first ended with an error that names the file and says what to do; started again, it finished. *Wrong*
would be other tables, *raw* an exception that nobody foresaw, *hang* no end after {patience} seconds. *Steps lost*:
finished steps that were computed again although the fault had not touched what they left. *Begun again*: how often work
on steps was begun more than once, in steps, as a share of all of the study; the step that is running when its process
is killed is among them, and so is what the fault itself destroyed. *Finished* is the share of steps that were finished
when it happened.

{what}

## Damage between two runs

A study is run once: a tiny BERT and two checkpoints of its fine-tuning, layer probes and neurons. Then every kind of
file and folder that it left is damaged, whatever was made from it is taken away, and the study is run again. One file
and the folder of every kind are damaged in every way: {ways}. The other files are {common}. Tried so far: {tried} of
{every} faults.

*Made again*: the damage was reported in one line, and all tables have the same bytes as before. *Right*: the tables
have the same bytes and there was nothing to report (a folder that is gone is simply made). *Clear error*: an error that
names the file and says what to do. *Raw* would be an exception of another kind, *wrong* other tables without an error,
or something lost behind a link, *hang* no end after {short} seconds.

{damage}
"""
WHAT = {
    "driver killed": "SIGKILL of the process that runs the study, engine `inline`; it is started again.",
    "worker killed": "SIGKILL of one of two workers, engine `local`; the driver goes on by itself.",
    "disk full": "cache and results lie on a file system of their own, which is filled; there is room again when the "
    "driver has ended.",
    "artefact truncated": "a file of the cache, of a kind of artefact that is drawn first, is cut at a random place; "
    "after the run, the study is run once more with the same cache.",
    "bit flipped": "the same with one bit.",
    "cache partly deleted": "every second artefact, or all of one kind, is removed.",
    "two drivers": "a second driver starts on the same cache; the tables of both are compared.",
    "clock set back": "by an hour (libfaketime), for all processes; a second driver joins, or the driver is killed and "
    "started again.",
    "Ray node killed": "all processes of the node that steps run on; another joins. What Ray begins again by itself "
    "is not counted.",
    "SLURM job cancelled": "`scancel` of a job that runs, by somebody else than the driver.",
    "SLURM job requeued": "`scontrol requeue` of a job that runs. What SLURM begins again by itself is not counted.",
}


def table(rows: Iterable[Iterable[Any]]) -> str:
    """Of the first row as a heading."""
    lines = [f"| {' | '.join(map(str, row))} |" for row in rows]
    columns = lines[0].count("|") - 2
    return "\n".join([lines[0], f"| :-- |{' --: |' * columns}", *lines[1:]])


def moments(kept: dict[str, list[dict[str, Any]]]) -> str:
    """A row per fault."""
    heading = ["fault", "tries", "steps", "finished", "same bytes", "clear error", "wrong", "raw", "hang", "steps lost"]
    rows: list[list[Any]] = [[*heading, "begun again, mean", "most"]]
    for name in WHAT:
        tried = kept.get(name, [])
        if not tried:
            continue
        result = Counter(row["result"] for row in tried)
        finished, again = [row["finished"] / row["steps"] for row in tried], [row["again"] for row in tried]
        errors = sum(bool(row["errors"]) and row["result"] == "same" for row in tried)
        bad = (result["wrong"], result["raw"], result["hang"] + result["unfinished"])
        lost = sum(len(row["lost"]) for row in tried)
        part = f"{min(finished):.0%} to {max(finished):.0%}"
        more = f"{mean(again):.0%}", f"{max(again):.0%}"
        steps = " or ".join(map(str, sorted({row["steps"] for row in tried})))
        rows.append([name, len(tried), steps, part, result["same"], errors, *bad, lost, *more])
    return table(rows)


def damage(results: list[dict[str, str]]) -> str:
    """A row per kind of artefact."""
    columns = (*GOOD, *BAD)
    rows: list[list[Any]] = [["artefact", "tried", *columns]]
    for kind in (*ARTEFACTS, "all"):
        found = Counter(row["result"] for row in results if kind in (row["kind"], "all"))
        rows.append([kind, found.total(), *(found[column] for column in columns)])
    return table(rows)


def page(kept: dict[str, Any]) -> str:
    """All of it."""
    tried = kept.get("moments", {})
    return TEXT.format(
        goal=GOAL,
        moments=moments(tried),
        patience=fault_study.PATIENCE,
        what="\n".join(f"- *{name}*: {what}" for name, what in WHAT.items() if tried.get(name)),
        ways=", ".join(WAYS),
        common=", ".join(COMMON),
        short=PATIENCE,
        tried=len(kept.get("damage", [])),
        every=len(faults()),
        damage=damage(kept.get("damage", [])),
    )


def write(kept: dict[str, Any]) -> None:
    """Write the page."""
    PAGE.write_text(page(kept))
