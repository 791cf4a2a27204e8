"""Profiles: which analyses answer a question in a minute, over a coffee, or overnight.

`compare` takes one by name. What a corpus has no task for is left out, unlike an analysis that is asked for by name.
"""

from typing import Any, Literal, get_args

from vestige.errors import SpecError

Profile = Literal["quick", "standard", "full"]

QUICK: tuple[dict[str, Any], ...] = (
    {"weights": {}},
    {"geometry": {}},
    {"similarity": {"measures": ["cka"]}},
    {"layer_probe": {"most_tasks": 1, "seeds": 1, "control": False, "l2": 1e-3, "tolerance": 0.05}},
)
STANDARD: tuple[dict[str, Any], ...] = (
    *QUICK[:2],
    {"similarity": {}},
    {"layer_probe": {}},
    {"probe_transfer": {}},
    {"v_information": {"most_tasks": 1}},
)
FULL: tuple[dict[str, Any], ...] = (
    *STANDARD[:5],
    {"v_information": {}},
    {"concepts": {"most_tasks": 1}},
    {"neurons": {"most_tasks": 1}},
    {"structural_probe": {}},
    {"description_length": {"most_tasks": 1}},
    {"attention": {}},
    {"perplexity": {"unit": "sentence"}},
    {"output_drift": {}},
    {"patching": {}},
)
_PROFILES: dict[str, tuple[dict[str, Any], ...]] = {"quick": QUICK, "standard": STANDARD, "full": FULL}

MOST_TASKS = "most_tasks"
"""Of an entry, not of its analysis: on how many of the tasks that fit it is run."""
WITHOUT_TWIN = ("quick",)
"""Profiles that spare the random twin, whose hidden states cost as much as a model's."""


def profile_analyses(name: str | None) -> list[dict[str, Any]]:
    """The analyses of a profile, as a study file writes them, with `most_tasks` among them; of None, none."""
    if name is None:
        return []
    if name not in _PROFILES:
        raise SpecError(f"there is no profile {name!r}", fix=f"choose from {', '.join(get_args(Profile))}")
    return [dict(one) for one in _PROFILES[name]]
