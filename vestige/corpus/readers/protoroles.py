"""Semantic proto-roles of the Universal Decompositional Semantics data, on English EWT.

The file gives, for edges from a predicate to an argument, how far properties hold of the argument (a
value normalised over annotators, above 0 where they hold) and how confident that is. Of the 18, an edge
has either the 14 of core arguments (volition, change of state, ...) or the 4 of modifiers (time, location,
manner, purpose). Edges name words by position: `ewt-dev-7-semantics-pred-3` is the third word of the
sentence that the map of ids calls `ewt-dev-7`. The words come from EWT's own files. Positions are those of
the release that was annotated; where a later one cuts a sentence into other words, which is rare, they
may be off by some words.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from math import inf, isfinite
from pathlib import Path
from typing import Any, Literal, NamedTuple

from vestige.corpus.readers.archive import unpacked, unzipped
from vestige.corpus.readers.conllu import parse_conllu
from vestige.corpus.readers.records import as_kind, field, parse_json
from vestige.corpus.readers.text import decode_lines, read_lines
from vestige.corpus.types import SPLITS, Sentence, SpanPair
from vestige.errors import CorpusError

ARCHIVE, IDS = "protoroles.normalized.zip", "ud_ids.json.gz"
_MEMBER = "protoroles.json"

_GRAPH = re.compile(r"ewt-(train|dev|test)-\d+")
_EDGE = re.compile(r"(.+)-semantics-pred-([0-9]{1,9})%%(.+)-semantics-arg-([0-9]{1,9})")
_WHOLE = "get the file again, as published"


class _Edge(NamedTuple):
    predicate: int
    argument: int
    values: Mapping[str, tuple[float, float]]


def read_protoroles(
    path: str | Path, *, ewt: str | Path | None = None, argument: Literal["head", "subtree"] = "head"
) -> dict[str, list[Sentence]]:
    """The sentences that have edges, by EWT's splits, with "protoroles" and "protorole_values".

    `path` is the folder of `protoroles.normalized.zip` and `ud_ids.json.gz`, or the zip itself; `ewt` is
    the folder of EWT's .conllu files, by default `ud_ewt` beside that folder.

    "protoroles": a pair of spans an edge, predicate and argument, labelled with the properties whose value
    is above 0 (there may be none). "protorole_values", edge by edge: property -> (value, confidence), for
    regression, and to tell a property that does not hold from one that was not asked.

    The predicate is its head word. So is the argument, since the file names no more; with
    `argument="subtree"` it is the words around its head that depend on it, up to the first that does not
    (what hangs on the predicate does not count: in "the man I saw", `saw` is no part of its own argument).
    """
    if argument not in ("head", "subtree"):
        raise CorpusError(f"unknown argument={argument!r}; known: head, subtree", fix="name one of them")
    path = Path(path)
    archive = path / ARCHIVE if path.is_dir() else path
    edges = _read_edges(archive, archive.parent / IDS)
    folder = archive.parent.absolute().parent / "ud_ewt" if ewt is None else Path(ewt)
    return {
        split: [_annotated(sentence, edges[split][sentence.id], argument) for sentence in sentences]
        for split, sentences in _read_sentences(folder, edges).items()
    }


def _read_ids(path: Path) -> dict[str, str]:
    """Sentence ids of EWT by the ids of graphs."""
    if not path.exists():
        raise CorpusError(f"{path}: no such file", fix=f"put it beside {ARCHIVE}")
    entries = as_kind(str(path), "the file", parse_json(_text(unpacked(path, "map of ids in JSON"), path), path), dict)
    return {
        graph: field(f"{path}, {graph}", as_kind(str(path), graph, entry, dict), "sentence_id", str)
        for graph, entry in entries.items()
    }


def _text(content: bytes, path: Path) -> str:
    return "\n".join(decode_lines(content, path))


def _read_edges(archive: Path, map_: Path) -> dict[str, dict[str, list[_Edge]]]:
    """Edges by split and sentence."""
    found: dict[str, dict[str, list[_Edge]]] = {split: defaultdict(list) for split in SPLITS}
    data, ids = _read_json(archive), _read_ids(map_)
    for graph, edges in data.items():
        where = f"{archive}, {graph}"
        match = _GRAPH.fullmatch(graph)
        if not match:
            raise CorpusError(f"{where}: expected an id such as ewt-train-12", fix=_WHOLE)
        if graph not in ids:
            raise CorpusError(f"{where}: {map_} does not say which sentence this is", fix="get both from one release")
        named = as_kind(archive.name, graph, edges, dict)
        read = (_edge(name, value, graph, where) for name, value in named.items())
        found[match[1]][ids[graph]].extend(sorted(read, key=lambda edge: edge[:2]))
    return found


def _read_json(archive: Path) -> dict[str, Any]:
    if not archive.exists():
        raise CorpusError(f"{archive}: no such file", fix=f"name the folder that holds {ARCHIVE}")
    found = unzipped(archive, lambda name: name == _MEMBER, "archive of proto-roles in JSON")
    if _MEMBER not in found:
        raise CorpusError(f"{archive}: not a whole archive of proto-roles in JSON (no {_MEMBER})", fix=_WHOLE)
    where = archive / _MEMBER
    root = as_kind(str(where), "the file", parse_json(_text(found[_MEMBER], where), where), dict)
    return field(str(where), root, "data", dict)


def _edge(name: str, value: Any, graph: str, where: str) -> _Edge:
    match = _EDGE.fullmatch(name)
    if not match or {match[1], match[3]} != {graph}:
        raise CorpusError(
            f"{where}: expected an edge such as {graph}-semantics-pred-3%%{graph}-semantics-arg-1, found {name}",
            fix=_WHOLE,
        )
    place = f"{where}, {name}: no value and confidence for every property"
    roles = field(place, as_kind(place, "the edge", value, dict), "protoroles", dict)
    answers = {role: as_kind(place, role, answer, dict) for role, answer in roles.items()}
    values = {
        role: (_finite(place, role, answer, "value"), _finite(place, role, answer, "confidence"))
        for role, answer in answers.items()
    }
    return _Edge(int(match[2]), int(match[4]), values)


def _finite(place: str, role: str, answer: Mapping[str, Any], name: str) -> float:
    given = field(f"{place}: {role}", answer, name, float, int)
    try:
        number = float(given)
    except OverflowError:
        number = inf
    if not isfinite(number):
        raise CorpusError(f"{place}: {name} of {role} is {number}", fix=_WHOLE)
    return number


def _read_sentences(folder: Path, edges: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Sentence]]:
    """EWT's sentences that have edges, in its order."""
    found = {}
    for split, wanted in edges.items():
        if not wanted:
            continue
        files = sorted(folder.glob(f"*{split}*.conllu"))
        if len(files) != 1:
            raise CorpusError(
                f"{folder}: expected one .conllu file whose name says {split}, found {len(files)}",
                fix="get UD English EWT and say ewt=..., its folder",
            )
        found[split] = parse_conllu(read_lines(files[0]), files[0], ids=wanted)
        lacking = sorted({*wanted} - {sentence.id for sentence in found[split]})
        if lacking:
            raise CorpusError(
                f"{files[0]}: lacks {len(lacking)} of the {len(wanted)} sentences with proto-roles, {lacking[0]} first",
                fix="read a release of UD English EWT that has them, whole and with its sent_id comments",
            )
    return found


def _annotated(sentence: Sentence, edges: list[_Edge], argument: str) -> Sentence:
    pairs = []
    for edge in edges:
        predicate, head = edge.predicate - 1, edge.argument - 1
        if not (0 <= predicate < len(sentence.words) and 0 <= head < len(sentence.words)):
            raise CorpusError(
                f"{sentence.source}: an edge from word {edge.predicate} to word {edge.argument}, but there are "
                f"{len(sentence.words)} words",
                fix="read the release of EWT that the proto-roles were made for",
            )
        span = (head, head + 1) if argument == "head" else _subtree(sentence.annotations["head"], head, predicate)
        labels = tuple(sorted(role for role, (value, _) in edge.values.items() if value > 0))
        pairs.append(SpanPair((predicate, predicate + 1), span, labels))
    annotations = {"protoroles": tuple(pairs), "protorole_values": tuple(edge.values for edge in edges)}
    return Sentence(sentence.id, sentence.words, annotations=annotations, source=sentence.source)


def _subtree(heads: tuple[int, ...], root: int, barred: int) -> tuple[int, int]:
    """The unbroken stretch of words around `root` that depend on it and not through `barred`."""
    below = {root}
    fresh = [root]
    while fresh:
        head = fresh.pop()
        new = [word for word, above in enumerate(heads) if above - 1 == head and word != barred and word not in below]
        below.update(new)
        fresh.extend(new)
    start, end = root, root + 1
    while start - 1 in below:
        start -= 1
    while end in below:
        end += 1
    return start, end
