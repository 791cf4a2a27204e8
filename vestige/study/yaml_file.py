"""YAML from outside: keys occur once, aliases do not explode, and every complaint is a SpecError."""

from pathlib import Path
from typing import Any

import yaml

from vestige.errors import SpecError
from vestige.files import read_file

LARGEST = 2**17
"""Bytes of a study file; that of a whole paper has a twentieth of it."""
MOST_NODES = 50_000
"""Values of a file once its aliases are written out."""
_LONGEST_NUMBER = 100
_MERGE = "tag:yaml.org,2002:merge"

_BROKEN = (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, OverflowError)
"""What PyYAML raises: its own errors, and those of Python for values such as `!!int ""` or 2026-13-01."""


def read_yaml(path: Path) -> Any:
    """What a file holds."""
    raw = read_file(path, SpecError, LARGEST)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: not UTF-8 ({error.reason} at byte {error.start})", fix="save it as UTF-8") from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, where: str) -> Any:
    """What a text holds."""
    try:
        return yaml.load(text, _Loader)
    except RecursionError:
        problem = "nested too deeply"
    except _BROKEN as error:
        problem = " ".join(str(error).split()) or type(error).__name__
    raise SpecError(f"{where}: not YAML: {problem:.300}", fix="check indentation, brackets and quotes")


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the bounds above."""

    def get_single_node(self) -> Any:
        node = super().get_single_node()
        if node is not None and _size(node, {}, set()) > MOST_NODES:
            raise yaml.YAMLError(f"more than {MOST_NODES} values once its aliases are written out")
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen: set[Any] = set()
        for key, _ in node.value:
            name = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else None
            if name in seen and name is not None and key.tag != _MERGE:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r:.80} occurs twice in one mapping", key.start_mark
                )
            seen.add(name)
        return node

    def construct_number(self, node: Any) -> Any:
        if len(node.value) > _LONGEST_NUMBER:
            raise yaml.constructor.ConstructorError(None, None, "a number of many digits", node.start_mark)
        return self.construct_yaml_int(node)


def _size(node: Any, known: dict[int, int], above: set[int]) -> int:
    """How many values a node stands for, aliases written out; each node is counted once, so that a bomb is cheap."""
    if id(node) in above:
        raise yaml.YAMLError(f"a value that holds itself, in line {node.start_mark.line + 1}")
    if id(node) not in known:
        parts = node.value if isinstance(node, yaml.CollectionNode) else []
        flat = [one for part in parts for one in (part if isinstance(part, tuple) else (part,))]
        known[id(node)] = 1 + sum(_size(one, known, above | {id(node)}) for one in flat)
    return known[id(node)]


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_number)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in pairs if tag != "tag:yaml.org,2002:timestamp"]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
