"""What the hashes in the column `params` stand for, and which setting is shown first."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

_ALWAYS_NAMED = {"probe": "{} probe", "protocol": "{}"}


@dataclass(frozen=True)
class Setting:
    """The parameters of an analysis, with a name short enough for a heading."""

    params: str
    analysis: str
    name: str
    """'linear probe, converged'; further parameters only where they tell settings apart."""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def protocol(self) -> str:
        return str(self.parameters.get("protocol", ""))

    @property
    def probe(self) -> str:
        return str(self.parameters.get("probe", ""))

    @property
    def preference(self) -> tuple[bool, bool]:
        """Sorts the converged linear probe first: its numbers have one answer."""
        return (self.protocol != "converged", self.probe != "linear")

    def same_but(self, other: "Setting", *names: str) -> bool:
        """Whether two settings differ in nothing but the named parameters."""
        keys = (set(self.parameters) | set(other.parameters)) - set(names)
        return self.analysis == other.analysis and all(
            self.parameters.get(key) == other.parameters.get(key) for key in keys
        )


def read_settings(cells: pd.DataFrame) -> dict[str, Setting]:
    """Every setting of a run by its hash, the preferred one first."""
    if cells.empty:
        return {}
    rows = cells.drop_duplicates("params")
    found = {row.params: (row.analysis, json.loads(row.parameters)) for row in rows.itertuples()}
    varying = {
        analysis: _varying([parameters for other, parameters in found.values() if other == analysis])
        for analysis, _ in found.values()
    }
    settings = [
        Setting(params, analysis, _name(analysis, parameters, varying[analysis]), parameters)
        for params, (analysis, parameters) in found.items()
    ]
    return {setting.params: setting for setting in sorted(settings, key=lambda s: s.preference)}


def _varying(all_parameters: list[dict[str, Any]]) -> list[str]:
    keys = dict.fromkeys(key for parameters in all_parameters for key in parameters)
    return [key for key in keys if len({json.dumps(p.get(key), sort_keys=True) for p in all_parameters}) > 1]


def _written(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, dict):
        return ", ".join(f"{name} {item}" for name, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _said(key: str, value: str) -> str:
    """'tolerance 0.1', 'with context', 'without context'."""
    return f"{'with' if value == 'True' else 'without'} {key}" if value in ("True", "False") else f"{key} {value}"


def _name(analysis: str, parameters: Mapping[str, Any], varying: list[str]) -> str:
    named = [form.format(parameters[key]) for key, form in _ALWAYS_NAMED.items() if key in parameters]
    written = {key: _written(parameters[key]) for key in varying if key in parameters}
    further = [_said(key, value) for key, value in written.items() if key not in _ALWAYS_NAMED]
    return ", ".join(named + further) or analysis
