"""A small valid corpus of every format, and how it is read: what hostile files are made from."""

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vestige.corpus.load import load_corpus
from vestige.corpus.types import words_digest


def _rows(id_: str, *words: str) -> str:
    """CoNLL-U from `word tag head`."""
    lines = [f"# sent_id = {id_}"]
    for number, one in enumerate(words, start=1):
        word, tag, head = one.split()
        lines.append(
            f"{number}\t{word}\t{word.lower()}\tX\t{tag}\tNumber=Sing\t{head}\t{'root' if head == '0' else 'dep'}\t_\t_"
        )
    return "\n".join(lines) + "\n\n"


SAW = _rows("a-1", "She PRP 2", "saw VBD 0", "her PRP$ 4", "dog NN 2")
RAN = _rows("a-2", "It PRP 2", "ran VBD 0", "away RB 2")
TREES = "(ROOT (S (NP (PRP She)) (VP (VBD saw) (NP (PRP$ her) (NN dog)))))\n(S (NP-SBJ (PRP It)) (VP (VBD ran)\n  (ADVP (RB away))))\n"
MENTIONS = (
    "# begin document GUM_a\n0\tShe\t(person-1)\n1\tsaw\t_\n2\ther\t(animal-2(person-1)\n3\tdog\tanimal-2)\n\n"
    "0\tIt\t(animal-2)\n1\tran\t(event-3\n2\taway\tevent-3)\n# end document\n"
)


def _gum() -> dict[str, str]:
    found = {"splits.md": "## train\n* GUM_a\n## dev\n* GUM_d\n## test\n* GUM_t\n"}
    for name in ("GUM_a", "GUM_d", "GUM_t"):
        found[f"dep/{name}.conllu"] = SAW + RAN
        found[f"const/{name}.ptb"] = TREES
        found[f"coref/gum/conll/{name}.conll"] = MENTIONS
    return found


def _tar(files: Mapping[str, str]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, text in files.items():
            content = text.encode("utf-8", "replace")
            member = tarfile.TarInfo(f"gum/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


def _zip(files: Mapping[str, str]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return made.getvalue()


def _lines(records: list[Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


BLIMP = _lines(
    [
        {
            "sentence_good": "Cats sleep .", "sentence_bad": "Cats sleeps .", "UID": "agreement", "pairID": str(number),
            "linguistics_term": "agreement", "field": "morphology",
        }
        for number in range(2)
    ]
)  # fmt: skip
EDGES = _lines(
    [
        {"text": "She saw her dog", "targets": [{"span1": [0, 1], "span2": [2, 4], "label": "agent"}]},
        {"text": "It ran", "targets": [{"span1": [0, 1], "span2": [1, 2], "label": ["agent", "theme"]}]},
    ]
)
SQUAD = json.dumps(
    {
        "data": [
            {
                "paragraphs": [
                    {
                        "context": "The dog ran away in 2016.",
                        "qas": [
                            {"id": "q1", "question": "Who ran ?", "answers": [{"text": "The dog", "answer_start": 0}]},
                            {"id": "q2", "question": "Who slept ?", "is_impossible": True, "answers": []},
                        ],
                    }
                ]
            }
        ]
    },
    indent=1,
)
_EDGE = "ewt-train-1-semantics-pred-2%%ewt-train-1-semantics-arg-1"
ROLES = json.dumps(
    {
        "data": {
            "ewt-train-1": {
                _EDGE: {
                    "protoroles": {
                        "volition": {"value": 1.5, "confidence": 0.9},
                        "time": {"value": -1, "confidence": 1},
                    }
                }
            }
        }
    }
)
ROLE_IDS = json.dumps({"ewt-train-1": {"document_id": "a", "sentence_id": "a-1"}})
HUB = [{"words": "She saw it", "label": "good"}, {"words": "It ran away", "label": "bad"}]


def _parquet() -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    made = io.BytesIO()
    pq.write_table(pa.table({key: [row[key] for row in HUB] for key in HUB[0]}), made)
    return made.getvalue()


@dataclass(frozen=True)
class Sample:
    """Files of a format below a folder, and what `load_corpus` is asked for."""

    format: str
    files: Mapping[str, Callable[[], bytes]]
    source: Callable[[Path], Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    inner: Mapping[str, tuple[str, Callable[[str], bytes]]] = field(default_factory=dict)
    """Texts inside packed files, by name of the file: the text, and what packs it."""

    def write(self, folder: Path, **changed: bytes) -> Path:
        """The files, some of them with other content."""
        for name, make in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(changed[name] if name in changed else make())
        return folder

    def read(self, folder: Path) -> Any:
        """What `load_corpus` makes of them; its tasks have names for the cache, as a study gives them."""
        corpus = load_corpus(self.source(folder), format=self.format, **self.options)
        for name in corpus.levels:
            corpus.task(name).digest(corpus.splits)
        for sentences in corpus.splits.values():
            words_digest(sentences)
            assert all(sentence.words for sentence in sentences)
            "".join(sentence.text for sentence in sentences).encode()
        return corpus


def _one(format: str, name: str, text: str, **options: Any) -> Sample:
    return Sample(format, {name: text.encode}, lambda folder: {"train": folder / name}, options)


def _whole(format: str, name: str, text: str | Callable[[], bytes], **options: Any) -> Sample:
    return Sample(format, {name: text.encode if isinstance(text, str) else text}, lambda folder: folder / name, options)


PMB = "# sen\n1\tShe\tshe\tPRO\tNP\n2\tran\trun\tEPS\tS\\NP\n\n1\tNew~York\tny\tGPE\tN\n"
SEMEVAL = '1\t"The <e1>dog</e1> caused the <e2>noise</e2>."\nCause-Effect(e1,e2)\nComment:\n\n2\t"A <e1>cat</e1> and a <e2>dog</e2>"\nOther\nComment: x\n'
CCG = "ID=wsj_1.1 PARSER=GOLD\n(<T S 0 2> (<L NP PRP PRP She NP>) (<L S\\NP VBD VBD ran S\\NP>) )\n"
STSB = "g\tf\ty\tn\t{}\tA man runs .\tA man walks .\n"

SAMPLES: dict[str, Sample] = {
    "conllu": _one("conllu", "a.conllu", SAW + RAN),
    "conll2000": _one("conll2000", "a.txt", "She PRP B-NP\nran VBD B-VP\n\nIt PRP B-NP\n"),
    "pmb": _one("pmb", "a.conll", PMB),
    "ccgbank": _one("ccgbank", "a.auto", CCG),
    "columns": _one("columns", "a.txt", "She\tPRP\nran\tVBD\n\nIt\tPRP\n", columns={"pos": 1}),
    "parallel": Sample(
        "parallel",
        {"words.txt": "She ran\nIt slept here\n".encode, "labels.txt": "P V\nP V R\n".encode},
        lambda folder: {"train": [folder / "words.txt", folder / "labels.txt"]},
    ),
    "tsv": _one("tsv", "a.tsv", "sentence\tlabel\nShe ran\tgood\nIt slept\tbad\n"),
    "tsv numeric": _one("tsv", "a.tsv", "She ran\t1.5\nIt slept\t-2\n", sentence=0, label=1, numeric=True),
    "glue": _one("glue", "a.tsv", "gj04\t1\t\tShe ran .\ngj04\t0\t*\tRan she .\n", task="cola"),
    "glue pairs": _one("glue", "a.tsv", STSB.format("3.8") + STSB.format("0"), task="stsb"),
    "senteval": _whole("senteval", "a.txt", "tr\tPAST\tShe ran .\nva\tPRES\tShe runs .\nte\tPAST\tIt ran .\n"),
    "squad": _one("squad", "a.json", SQUAD),
    "blimp": Sample(
        "blimp",
        {"a.zip": lambda: _zip({"data/agreement.jsonl": BLIMP})},
        lambda folder: folder / "a.zip",
        inner={"a.zip": (BLIMP, lambda text: _zip({"data/agreement.jsonl": text}))},
    ),
    "blimp folder": Sample("blimp", {"data/a.jsonl": BLIMP.encode}, lambda folder: folder),
    "edges": _one("edges", "a.jsonl", EDGES),
    "semeval2010": _one("semeval2010", "a.txt", SEMEVAL),
    "brackets": _one("brackets", "a.mrg", TREES),
    "gum": Sample(
        "gum",
        {"gum.tar.gz": lambda: _tar(_gum())},
        lambda folder: folder / "gum.tar.gz",
        inner={"gum.tar.gz": (MENTIONS, lambda text: _tar({**_gum(), "coref/gum/conll/GUM_a.conll": text}))},
    ),
    "gum folder": Sample(
        "gum", {f"gum/{name}": text.encode for name, text in _gum().items()}, lambda folder: folder / "gum"
    ),
    "protoroles": Sample(
        "protoroles",
        {
            "roles/protoroles.normalized.zip": lambda: _zip({"protoroles.json": ROLES}),
            "roles/ud_ids.json.gz": lambda: gzip.compress(ROLE_IDS.encode(), mtime=0),
            "ud_ewt/en_ewt-ud-train.conllu": (SAW + RAN).encode,
        },
        lambda folder: folder / "roles",
        inner={
            "roles/protoroles.normalized.zip": (ROLES, lambda text: _zip({"protoroles.json": text})),
            "roles/ud_ids.json.gz": (ROLE_IDS, lambda text: gzip.compress(text.encode("utf-8", "replace"), mtime=0)),
        },
    ),
    "text": _one("text", "a.txt", "She ran .\n\nIt slept here .\n"),
    "hub json": _whole("hub", "a.jsonl", _lines(HUB), words="words", label="label"),
    "hub csv": _whole("hub", "a.csv", "words,label\nShe saw it,good\nIt ran,bad\n", words="words", label="label"),
    "hub parquet": _whole("hub", "a.parquet", _parquet, words="words", label="label"),
}  # fmt: skip
