"""Where the numbers come from: fine-tuning, models, corpora, parameters, versions, decisions."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from vestige.report.drawing.training import training_chart
from vestige.report.settings import Setting
from vestige.report.types import Table
from vestige.report.wording import count, percent

_POOLING = {
    "first": "a word's vector is that of its first sub-word",
    "last": "a word's vector is that of its last sub-word",
    "mean": "a word's vector is the mean of its sub-words",
    "max": "a word's vector is the maximum over its sub-words, unit by unit",
    "cls": "a sentence's vector is that of the token that the family's own classifier reads",
    "sentence_mean": "a sentence's vector is the mean of its tokens, special ones among them",
    "sentence_word_mean": "a sentence's vector is the mean of its tokens without special ones",
    "sentence_max": "a sentence's vector is the maximum over its tokens, unit by unit",
    "sentence_last": "a sentence's vector is that of its last token",
}


def tuning_sections(lock: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The recipe and the curve of every model that the study fine-tuned."""
    found = []
    for name, runs in lock.get("models", {}).items():
        tuned = [run for run in runs if run.get("recipe")]
        if not tuned:
            continue
        curve = _curve(tuned)
        scored = [name for name in curve if name.startswith(("dev_", "test_")) and curve[name].notna().any()]
        measures = {"loss": "training loss"} | {name: name.replace("_", " ") for name in scored}
        drawn = []
        for column, title in measures.items():
            if column in curve and curve[column].notna().any():
                rows = curve.dropna(subset=[column]).rename(columns={column: "value"})[["epoch", "run", "value"]]
                drawn.append(training_chart(rows, title, f"{name}: {title} by epoch"))
        found.append(
            {
                "name": name,
                "task": tuned[0].get("tuned_on", ""),
                "runs": len(tuned),
                "recipe": facts(tuned[0]["recipe"]),
                "figures": drawn,
                "table": _curve_table(curve, [m for m in measures if m in curve]),
            }
        )
    return found


def model_table(lock: Mapping[str, Any]) -> Table:
    """Every model: where it comes from, its size, the hash of its weights."""
    head = ["model", "source", "type", "layers", "width", "fingerprint", "commit"]
    rows = [
        [
            name + (f", run {run['tune_seed']}" if len(runs) > 1 and run.get("tune_seed") is not None else ""),
            str(run.get("source") or ""),
            str(run.get("type") or ""),
            f"embeddings + {int(run['layers']) - 1}" if run.get("layers") else "",
            ", ".join(map(str, dict.fromkeys(run.get("widths") or []))),
            str(run.get("fingerprint") or ""),
            str(run.get("commit") or "\u2013"),
        ]
        for name, runs in lock.get("models", {}).items()
        for run in runs
    ]
    return Table("", head, rows)


def corpus_table(lock: Mapping[str, Any]) -> Table:
    """Every split of every corpus with its size and the hash of its words and labels."""
    rows = [
        [name, split, count(own.get("sentences", 0)), count(own.get("words", 0)), str(own.get("digest", ""))]
        for name, corpus in lock.get("corpora", {}).items()
        for split, own in corpus.get("splits", {}).items()
    ]
    return Table("", ["corpus", "split", "sentences", "words", "digest"], rows)


def corpus_notes(lock: Mapping[str, Any]) -> list[str]:
    """What was done to the corpora before anything was computed."""
    return [f"{name}: {note}" for name, corpus in lock.get("corpora", {}).items() for note in corpus.get("notes", [])]


def decisions(setting: Setting) -> list[str]:
    """Choices that the papers leave open, as this setting made them."""
    own = setting.parameters
    lines = []
    if setting.protocol == "converged" and setting.probe == "linear":
        lines.append(
            f"protocol converged: every probe is trained until its distance from the optimum is certified to be at "
            f"most {own.get('tolerance', 0):g} nats per word; {_scaled(own)}; the ridge is "
            + ("chosen on dev" if own.get("l2") is None else f"{own['l2']:g}")
        )
    elif setting.protocol == "converged":
        lines.append(f"protocol converged: {_scaled(own)}; training stops by dev")
    elif setting.protocol == "durrani":
        lines.append("protocol durrani (the papers'): Adam 1e-3, batches of 512, 10 epochs, no scaling; not converged")
    elif setting.protocol == "senteval":
        lines.append("protocol senteval: Adam 1e-3, batches of 64, weight decay and stopping by dev, no scaling")
    if own.get("pooling") in _POOLING:
        lines.append(f"pooling {own['pooling']}: {_POOLING[own['pooling']]}")
    if setting.probe == "mlp":
        lines.append(f"probe mlp: one hidden layer of {own.get('hidden')} units")
    lines += _penalties(own)
    if own.get("split"):
        lines.append(f"scored on the split {own['split']}")
    return lines


def _scaled(own: Mapping[str, Any]) -> str:
    return "every unit is scaled to one size" if own.get("scale") == "unit" else "a layer is scaled by one number"


def _penalties(own: Mapping[str, Any]) -> list[str]:
    """Penalties of a probe that has both kinds, and how sets of neurons grow."""
    if "grid" not in own:
        return []
    given = [f"{name} {own[name]:g}" for name in ("l1", "l2") if own.get(name) is not None]
    sought = [name for name in ("l1", "l2") if own.get(name) is None]
    tried = ", ".join(f"{value:g}" for value in own.get("grid", ()))
    lines = [f"penalties: {', '.join(given)}"] if given else []
    lines += [f"{' and '.join(sought)} searched on dev among {tried}"] if sought and tried else []
    if own.get("step"):
        lines.append(f"minimal sets grow in steps of {100 * own['step']:g} % of all neurons")
    return lines


def versions(lock: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Software by name."""
    plain = {name: lock.get(name) for name in ("vestige", "python", "machine")}
    return facts({**plain, **lock.get("libraries", {})})


def _curve(tuned: list[Mapping[str, Any]]) -> pd.DataFrame:
    rows = [
        {**point, "run": str(run.get("tune_seed", index))}
        for index, run in enumerate(tuned)
        for point in run.get("curve") or []
    ]
    return pd.DataFrame(rows)


def _curve_table(curve: pd.DataFrame, measures: list[str]) -> Table | None:
    if curve.empty:
        return None

    def cell(measure: str, value: float) -> str:
        if pd.isna(value):
            return "\u2013"
        return f"{value:.3f}" if measure == "loss" else percent(value)

    rows = [
        [str(row["run"]), str(int(row["epoch"])), *(cell(measure, row[measure]) for measure in measures)]
        for _, row in curve.iterrows()
    ]
    return Table("", ["run", "epoch", *(measure.replace("_", " ") for measure in measures)], rows)


def facts(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A mapping as pairs of strings, nested values written out."""
    return [(str(name), _plain(value)) for name, value in values.items() if value not in (None, "", [], {})]


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_plain(item)}" for name, item in value.items() if item is not None)
    if isinstance(value, (list, tuple)):
        same = len(value) > 2 and len(set(map(str, value))) == 1
        return f"{value[0]} \u00d7 {len(value)}" if same else ", ".join(_plain(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
