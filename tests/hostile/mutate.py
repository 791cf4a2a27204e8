"""Mutants of valid files: what damage, haste and malice make of them. The same seed gives the same mutant."""

import json
import random
from collections.abc import Callable
from typing import Any

ODD = (
    "", " ", "\t", "\n", "\r", "\r\n\r\n", "\0", "\ufeff", "\u2028", "\x85", "\u00a0", "\u202e", "e\u0301", "\U0001f600", "NaN",
    "nan", "inf", "-inf", "1e400", "-1", "0", "1.5", "9" * 5000, "_", "-", "(", ")", "((", "<e1>", "</e2>", "#", "# sent_id =",
    "1-2", "1.1", "\u0661", "\u00b2", "{}", "[]", "null", "true", '"', "\\", "\\ud800", "%%", "<", "&", "../../x", "a" * 5000, "=",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**70, 10**400, 1.5, -0.0, float("nan"), float("inf"), "", " ", "x", "\0", "\ud800", "\u2028",
    [], [[]], [None], {}, {"": None}, {"a": {}}, [0, 1], [1, 0], [0, 10**30], "9" * 5000, [[[[[[]]]]]],
)  # fmt: skip


def mutate(content: bytes, rng: random.Random) -> bytes:
    """One to three changes of bytes, lines, fields or values."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        content = rng.choice(_CHANGES)(content, rng)
    return content


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _swap(content: bytes, rng: random.Random) -> bytes:
    made = bytearray(content)
    for _ in range(rng.choice((1, 2, 8)) if made else 0):
        made[rng.randrange(len(made))] = rng.randrange(256)
    return bytes(made)


def _exchange(content: bytes, rng: random.Random) -> bytes:
    if len(content) < 2:
        return content
    one, other = sorted(rng.sample(range(len(content)), 2))
    return content[:one] + content[other:] + content[one:other]


def _insert(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    return content[:place] + rng.choice(ODD).encode("utf-8", "surrogatepass") + content[place:]


def _line(content: bytes, rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    place = rng.randrange(len(lines))
    match rng.randrange(4):
        case 0:
            del lines[place]
        case 1:
            lines.insert(place, rng.choice(lines))
        case 2:
            lines[place] = lines[place] * rng.choice((2, 50))
        case _:
            lines[place] = rng.choice(ODD).encode("utf-8", "surrogatepass")
    return b"\n".join(lines)


def _field(content: bytes, rng: random.Random) -> bytes:
    mark = rng.choice((b"\t", b" ", b",", b":", b'"', b"(", b")", b"="))
    fields = content.split(mark)
    place = rng.randrange(len(fields))
    match rng.randrange(3):
        case 0:
            del fields[place]
        case 1:
            fields.insert(place, rng.choice(fields))
        case _:
            fields[place] = rng.choice(ODD).encode("utf-8", "surrogatepass")
    return mark.join(fields)


def _value(content: bytes, rng: random.Random) -> bytes:
    """Another value somewhere in JSON, whole or by lines; other files as they are."""
    lines = content.split(b"\n")
    for chosen in [None] if len(lines) == 1 else [None, rng.randrange(len(lines))]:
        try:
            record = json.loads(content if chosen is None else lines[chosen])
        except (ValueError, RecursionError):
            continue
        text = json.dumps(change_value(record, rng)).encode()
        if chosen is None:
            return text
        lines[chosen] = text
        return b"\n".join(lines)
    return _insert(content, rng)


def change_value(value: Any, rng: random.Random) -> Any:
    """The value with one thing in it removed, doubled or replaced."""
    places: list[tuple[Any, Any]] = []

    def walk(one: Any) -> None:
        for key in one if isinstance(one, dict) else range(len(one)):
            places.append((one, key))
            if isinstance(one[key], dict | list):
                walk(one[key])

    if isinstance(value, dict | list):
        walk(value)
    if not places:
        return rng.choice(VALUES)
    holder, key = rng.choice(places)
    match rng.randrange(4):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.append(holder[key])
        case 1:
            holder[rng.choice(ODD)] = holder[key]
        case _:
            holder[key] = rng.choice(VALUES)
    return value


def _nest(content: bytes, rng: random.Random) -> bytes:
    opening, closing = rng.choice(((b"[", b"]"), (b"(", b")"), (b'{"a":', b"}"), (b"(S ", b")")))
    depth = rng.choice((3, 2000, 100_000))
    return opening * depth + (content if rng.random() < 0.5 else b"1") + closing * depth


_CHANGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _cut, _swap, _swap, _exchange, _insert, _insert, _line, _line, _field, _field, _field, _value, _value, _value, _nest,
)  # fmt: skip
