"""Hostile corpora: files, archives, options and sources of `load_corpus`."""

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hostile.case import Case
from hostile.odd_files import CONTENTS, PLACES
from hostile.samples import BLIMP, EDGES, RAN, SAMPLES, SAW, SQUAD, Sample
from vestige.corpus.load import load_corpus

READABLE = ("deep brackets", "deep objects", "a number of 5,000 digits", "a line of ten million letters", "zeros")
"""Raw text may be anything that is text."""
FORMATS = (
    "conllu", "conll2000", "pmb", "ccgbank", "columns", "parallel", "tsv", "glue", "senteval", "squad", "blimp", "edges",
    "semeval2010", "brackets", "gum", "protoroles", "text", "hub json", "hub csv", "hub parquet",
)  # fmt: skip


def _spoilt(sample: Sample, spoil: Callable[[Path], None]) -> Callable[[Path], Any]:
    def act(folder: Path) -> Any:
        sample.write(folder)
        spoil(folder / next(iter(sample.files)))
        return sample.read(folder)

    return act


def _files() -> Iterator[Case]:
    for name in FORMATS:
        for what, spoil in {**PLACES, **CONTENTS}.items():
            right = name == "text" and what in READABLE
            yield Case("corpus files", f"{name}: {what}", _spoilt(SAMPLES[name], spoil), None if right else "")


def _bomb_zip(name: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, bytes(200 * 2**20))
    return made.getvalue()


def _bomb_tar() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        member = tarfile.TarInfo("gum/dep/GUM_a.conllu")
        member.size = 200 * 2**20
        archive.addfile(member, io.BytesIO(bytes(member.size)))
    return made.getvalue()


def _with(name: str, **files: bytes | Callable[[], bytes]) -> Callable[[Path], Any]:
    """A sample with other content in some files."""

    def act(folder: Path) -> Any:
        changed = {key: value if isinstance(value, bytes) else value() for key, value in files.items()}
        return SAMPLES[name].read(SAMPLES[name].write(folder, **changed))

    return act


def _archives() -> Iterator[Case]:
    roles, ids = "roles/protoroles.normalized.zip", "roles/ud_ids.json.gz"
    yield Case(
        "archives", "zip bomb of BLiMP", _with("blimp", **{"a.zip": lambda: _bomb_zip("data/a.jsonl")}), "unpacks to"
    )
    yield Case(
        "archives",
        "zip bomb of proto-roles",
        _with("protoroles", **{roles: lambda: _bomb_zip("protoroles.json")}),
        "unpacks to",
    )
    yield Case(
        "archives",
        "gzip bomb of ids",
        _with("protoroles", **{ids: lambda: gzip.compress(bytes(200 * 2**20))}),
        "unpacks to",
    )
    yield Case("archives", "tar bomb of GUM", _with("gum", **{"gum.tar.gz": _bomb_tar}), "unpacks to")
    for name, file in (("blimp", "a.zip"), ("gum", "gum.tar.gz"), ("protoroles", roles), ("protoroles", ids)):
        whole = SAMPLES[name].files[file]
        yield Case("archives", f"{name}: half of {file}", _with(name, **{file: lambda w=whole: w()[: len(w()) // 2]}))
        yield Case("archives", f"{name}: {file} without its end", _with(name, **{file: lambda w=whole: w()[:-20]}))


def _text(name: str, text: str | bytes, says: str | None = "", what: str = "") -> Case:
    file = next(iter(SAMPLES[name].files))
    content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return Case("corpus content", f"{name}: {what}", _with(name, **{file: content}), says)


def _contents() -> Iterator[Case]:
    yield _text("conllu", SAW.replace("\t2\tdep", "\t99\tdep"), "head 99", "a head that is not there")
    yield _text("conllu", SAW.replace("\t2\tdep", f"\t{'9' * 5000}\tdep"), "", "a head of 5,000 digits")
    yield _text("conllu", SAW.replace("1\tShe", "1-99999999\tShe"), "", "a range of a hundred million words")
    yield _text("conllu", SAW + SAW, "occurs twice", "two sentences of one id")
    yield _text("conllu", "\ufeff" + SAW.replace("\n", "\r\n"), None, "a BOM and the line ends of Windows")
    yield _text("conllu", SAW.replace("She", "S\0he"), None, "NUL in a word")
    yield _text("brackets", "(S " * 50_000 + "(X a)" + ")" * 50_000, None, "a tree of fifty thousand levels")
    yield _text("brackets", "(S (NP (PRP She)", "unbalanced", "brackets that stay open")
    yield _text("brackets", ")" * 1000, "unbalanced", "brackets that never opened")
    yield _text("edges", EDGES.replace("[0, 1]", "[0, NaN]", 1), "NaN", "NaN as the end of a span")
    yield _text("edges", EDGES.replace("[0, 1]", "[-1, 1]", 1), "outside", "a span that starts before the text")
    yield _text("edges", EDGES.replace("[0, 1]", f"[0, {'9' * 5000}]", 1), "not JSON", "a span of 5,000 digits")
    yield _text(
        "edges", EDGES.replace('"label": "agent"', '"label": "a", "label": "b"', 1), "occurs twice", "a label twice"
    )
    yield _text("edges", EDGES.replace("She saw", "\\ud800 saw"), "surrogate", "half a surrogate pair")
    yield _text("edges", EDGES.replace('"agent"', "true", 1), "", "true as a label")
    yield _text("edges", "[1, 2]\n", "an object", "a list where an object belongs")
    yield _text(
        "squad", SQUAD.replace('"answer_start": 0', '"answer_start": 7'), "expected the answer", "an answer elsewhere"
    )
    yield _text("squad", SQUAD.replace('"answer_start": 0', f'"answer_start": {10**30}'), "", "an answer far away")
    yield _text("squad", SQUAD.replace('"answer_start": 0', '"answer_start": -7'), "", "an answer before the text")
    yield _text("squad", json.dumps({"data": {}}), "a list", "data that is no list")
    yield _text("squad", '{"data": [' + "[" * 50_000, "nested too deeply", "deep articles")
    yield _text("blimp folder", BLIMP.replace('"pairID": "0"', '"pairID": 0.5'), "", "a pair that is half")
    yield _text("blimp folder", BLIMP.replace("Cats sleep .", "", 1), "", "an empty sentence")
    yield _text("tsv", "sentence\tlabel\nShe ran\tgood\textra\n", "columns", "a stray tab")
    yield _text("tsv", "sentence\tlabel\nShe ran\t\n", "empty label", "an empty label")
    yield _text("tsv", "sentence\tlabel\n", "no rows", "a header alone")
    yield _text("tsv numeric", "She ran\tnan\nIt ran\t1\n", "expected a number", "NaN as a score")
    yield _text("tsv numeric", "She ran\t1e999\nIt ran\t1\n", "expected a number", "an infinite score")
    yield _text("glue pairs", "g\tf\ty\tn\tinf\tA man .\tA dog .\n", "expected a number", "an infinite score")
    yield _text("glue", "gj04\t-1\t\tShe ran .\n", "no labels", "hidden labels")
    yield _text("senteval", "xx\tPAST\tShe ran .\n", "tr, va or te", "a split of another name")
    yield _text("semeval2010", '1\t"no tags at all"\nOther\n', "<e1>", "entities without tags")
    yield _text("ccgbank", "(<L NP PRP She NP>)\n", "derivation", "a leaf without a field")
    yield _text("columns", "one\n", "columns", "too few columns")
    yield _text("text", "a\u2028b\u0085c\n", None, "line separators of Unicode")
    yield _text("text", "\n \n\t\n", "no sentences", "blank lines alone")
    yield _text("hub json", '{"words": {"a": 1}, "label": "x"}\n', "", "an object where text belongs")
    yield _text("hub json", '{"words": "a b", "label": [[1]]}\n', "", "lists of lists as labels")
    yield _text("hub csv", "words,label\n", "", "a header alone")
    yield _text("hub csv", 'words,label\n"a b', "", "a quotation that never ends")


def _load(source: Any, **options: Any) -> Callable[[Path], Any]:
    def act(folder: Path) -> Any:
        (folder / "a.tsv").write_text("sentence\tlabel\nShe ran\tgood\nIt slept\tbad\n")
        (folder / "a.conllu").write_text(SAW + RAN)
        (folder / "a.txt").write_text("She PRP\nran VBD\n")
        return load_corpus(source(folder) if callable(source) else source, **options)

    return act


def _asked(name: str, source: Any, says: str | None, **options: Any) -> Case:
    return Case("corpus options", name, _load(source, **options), says)


def _tsv(folder: Path) -> dict[str, Path]:
    return {"train": folder / "a.tsv"}


def _trees(folder: Path) -> dict[str, Path]:
    return {"train": folder / "a.conllu"}


def _options() -> Iterator[Case]:
    yield _asked("an unknown option", _tsv, "no option 'sentnce'; it has", format="tsv", sentnce="a")
    yield _asked("a missing option", lambda f: {"train": f / "a.txt"}, "needs the option 'columns'", format="columns")
    for value in ([1], "x", {"pos": "x"}, {"pos": None}, {"pos": True}, None, 3):
        yield _asked(f"columns {value!r}", lambda f: {"train": f / "a.txt"}, "columns", format="columns", columns=value)
    yield _asked("column -3 of a table", _tsv, "counted from 0", format="tsv", sentence=0, label=-3)
    yield _asked("column 10**30", _tsv, "columns", format="tsv", sentence=0, label=10**30)
    yield _asked(
        "a separator that is empty",
        lambda f: {"train": f / "a.txt"},
        "",
        format="columns",
        columns={"p": 1},
        separator="",
    )
    yield _asked("a task of GLUE that is none", _tsv, "unknown GLUE task", format="glue", task="colla")
    yield _asked("a task that is a list", _tsv, "task is ['cola']", format="glue", task=["cola"])
    yield _asked("an unknown format", _tsv, "unknown corpus format", format="tvs")
    yield _asked("a format that is a list", _tsv, "unknown corpus format", format=["tsv"])
    for value in ({}, {"a": 1, "b": 2}, {"chunk": None}, {"chunk": []}, {1: {}}, [], ["chunk"], 3, True):
        yield _asked(f"derive {value!r}", "treebank", "derive should be", derive=value)
    yield _asked("a derived task that is none", "treebank", "unknown derived task", derive="bigram_shit")
    for options in (
        {"minimum": -1},
        {"minimum": "x"},
        {"lengths": [1]},
        {"lengths": 3},
        {"lengths": ["a", "b"]},
        {"k": 1},
    ):
        yield _asked(f"derived with {options!r}", "treebank", "", derive={"bigram_shift": options})
    yield _asked(
        "derived with a share of NaN",
        "treebank",
        "frequent is nan",
        derive={"past_present": {"frequent": float("nan")}},
    )
    yield _asked("derived with -1 targets", "treebank", "targets is -1", derive={"word_content": {"targets": -1}})
    for share in (float("nan"), float("inf"), -0.5, 1.5, "x", None, [0.1]):
        if share is not None:
            yield _asked(f"a dev share of {share!r}", _trees, "held out", dev=share)
    for source in ({}, [], None, 3, {"train": None}, {"train": 3}, {1: "a"}, {"train": []}, {"train": [None]}, True):
        yield _asked(f"the source {source!r}", source, "")
    yield _asked(
        "a list of files for a format of one", lambda f: {"train": [f / "a.tsv", f / "a.tsv"]}, "to read", format="tsv"
    )
    yield _asked("files by split for a format of one file", _tsv, "", format="gum")
    yield _asked("parallel files that are one", lambda f: {"train": f / "a.txt"}, "come in pairs", format="parallel")
    yield _asked("a name with NUL", "a\0b", "no such file")
    yield _asked("a name of 5,000 letters", "a" * 5000, "")
    yield _asked("a name that is empty", "", "")
    yield _asked("a name that leads upwards", "../../etc/passwd", "")
    yield _asked("a device", "/dev/zero", "", format="text")


CASES = [*_files(), *_archives(), *_contents(), *_options()]
