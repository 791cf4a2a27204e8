"""Patterns of module names in an adapter's configuration, tried out where one that never ends can be stopped.

peft matches regular expressions of the configuration with the name of every module. Some expressions take
longer than the world is old on a name of thirty letters; `re` cannot be stopped from within, a process can.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vestige.errors import ModelError

SECONDS = 5
_TRIAL = r"""
import json, re, sys
patterns, names = json.load(sys.stdin)
for number, pattern in enumerate(patterns):
    print(number, flush=True)
    try:
        tried = [re.compile(form.format(pattern)) for form in ("{}", r"(.*\.)?({})$", r"(?:^|.*?\.){}\.(?P<idx>\d+)\.")]
    except (re.error, RecursionError, OverflowError) as error:
        sys.exit(f"no regular expression: {error}")
    for name in names:
        for one in tried:
            one.fullmatch(name), one.match(name), one.search(name)
"""
_PLAIN = ("target_modules", "exclude_modules", "layers_pattern", "feedforward_modules", "modules_to_save")
_KEYED = ("rank_pattern", "alpha_pattern")


def check_patterns(where: str | Path, settings: Mapping[str, Any], modules: Iterable[str]) -> None:
    """An error where an expression of the settings is none, or does not end within seconds on these names."""
    patterns = [text for text in _patterns(settings) if not _is_name(text)]
    if not patterns:
        return
    fix = "name the modules in a list: target_modules: [query, value]"
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _TRIAL],
            input=json.dumps([patterns, list(modules)]),
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        reached = (error.stdout or b"0").split()
        pattern = patterns[int(reached[-1])] if reached else patterns[0]
        raise ModelError(
            f"{where}: the pattern {pattern!r:.80} is still being matched with names of modules after {SECONDS} s",
            fix=fix,
        ) from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["no regular expression"]
        pattern = patterns[int(done.stdout.split()[-1])] if done.stdout.split() else patterns[0]
        raise ModelError(f"{where}: the pattern {pattern!r:.80}: {said[-1]}", fix=fix)


def _patterns(settings: Mapping[str, Any]) -> list[str]:
    found: list[Any] = []
    for name in _PLAIN:
        value = settings.get(name)
        found += [value] if isinstance(value, str) else value if isinstance(value, Sequence | set) else []
    for name in _KEYED:
        found += list(settings.get(name) or {})
    return [text for text in found if isinstance(text, str)]


def _is_name(text: str) -> bool:
    return text.replace("-", "").replace("_", "").replace(".", "").isalnum()
