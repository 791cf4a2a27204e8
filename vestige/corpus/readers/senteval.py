"""SentEval's probing files: every split in one file, `tr|va|te <TAB> label <TAB> ... <TAB> sentence`."""

from pathlib import Path

from vestige.corpus.readers.text import read_lines
from vestige.corpus.types import Sentence, with_ids
from vestige.errors import CorpusError

_SPLITS = {"tr": "train", "va": "dev", "te": "test"}


def read_senteval(path: str | Path, task: str = "label") -> dict[str, list[Sentence]]:
    """Sentences by split; the last field is the sentence, its tokens are the words."""
    path = Path(path)
    rows: dict[str, list[Sentence]] = {split: [] for split in _SPLITS.values()}
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        fields = line.split("\t")
        if len(fields) < 3:
            raise CorpusError(
                f"{path}:{number}: expected at least 3 tab-separated fields (split, label, sentence), "
                f"found {len(fields)}",
                fix="check that the file is one of SentEval's probing files",
            )
        if fields[0] not in _SPLITS:
            raise CorpusError(
                f"{path}:{number}: expected the split tr, va or te, found {fields[0]!r}",
                fix="check that the file is one of SentEval's probing files",
            )
        words = tuple(fields[-1].split())
        if not words:
            raise CorpusError(f"{path}:{number}: an empty sentence", fix="remove the line")
        annotations = {task: fields[1].strip()}
        rows[_SPLITS[fields[0]]].append(Sentence("", words, annotations=annotations, source=f"{path}:{number}"))
    return {split: with_ids(found) for split, found in rows.items() if found}
