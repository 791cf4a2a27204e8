"""README.md of a tuned model: what it is, how it was made, what it reaches."""

from typing import Any


def model_card(log: dict[str, Any]) -> str:
    """A Hugging Face model card from the log of a run."""
    base = log["base"]
    lines = [
        "---",
        *([] if base.startswith("/") else [f"base_model: {base}"]),
        "tags: [vestige]",
        "---",
        "",
        f"# {base} fine-tuned on {log['task']}",
        "",
        f"Seed {log['seed']}, {log['steps']} steps, {log['examples']} training inputs. Made by vestige "
        f"{log['vestige']}.",
        *([f"Only the blocks {log['keep']} of the base were kept (counted from 0)."] if log["keep"] else []),
        *(["This folder holds an adapter, to be loaded onto the base."] if log["adapter"] else []),
        "",
        "## Scores",
        "",
        "Intervals are 95 % bootstrap intervals over examples; majority is the most frequent answer of the training "
        "data.",
        "",
        "| split | measure | value | 95 % interval | majority |",
        "|---|---|---|---|---|",
    ]
    for split, measures in log["scores"].items():
        for name, found in measures.items():
            majority = "" if found["majority"] is None else f"{found['majority']:.4f}"
            interval = f"{found['low']:.4f} to {found['high']:.4f}"
            lines.append(f"| {split} | {name} | {found['value']:.4f} | {interval} | {majority} |")
    lines += ["", "## Recipe", "", "| setting | value |", "|---|---|"]
    lines += [f"| {key} | {value} |" for key, value in log["recipe"].items() if value is not None]
    lines += ["", "## Data", "", "| split | words | labels |", "|---|---|---|"]
    lines += [f"| {split} | {words} | {labels} |" for split, (words, labels) in log["data"].items()]
    if log["notes"]:
        lines += ["", "## Notes", "", *(f"- {note}" for note in log["notes"])]
    return "\n".join(lines) + "\n"
