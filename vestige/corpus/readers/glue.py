"""The nine tasks of GLUE, each in the layouts in which its files are passed around."""

from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from vestige.corpus.readers.notes import Noted
from vestige.corpus.readers.tsv import Column, read_tsv, table_lines
from vestige.errors import CorpusError


class Layout(NamedTuple):
    """Which columns hold what: by the header's names, or by number where there is no header."""

    label: Column
    sentence: Column
    second: Column | None = None


LAYOUTS: dict[str, tuple[Layout, ...]] = {
    "cola": (Layout("label", "sentence"), Layout(1, 3)),
    "sst2": (Layout("label", "sentence"),),
    "mrpc": (Layout("Quality", "#1 String", "#2 String"),),
    "qqp": (Layout("is_duplicate", "question1", "question2"),),
    "stsb": (Layout("score", "sentence1", "sentence2"), Layout(4, 5, 6)),
    "mnli": (Layout("gold_label", "sentence1", "sentence2"), Layout("gold_label", "premise", "hypothesis")),
    "qnli": (Layout("label", "question", "sentence"),),
    "rte": (Layout("label", "sentence1", "sentence2"),),
    "wnli": (Layout("label", "sentence1", "sentence2"),),
}
"""By task; a layout without a header comes last. CoLA's and STS-B's are those of the original files."""

_NO_GOLD = "-"
"""MNLI's label where its annotators did not agree."""


def read_glue(path: str | Path, task: str) -> Noted:
    """Sentences or pairs with the labels of `task`; STS-B's are numbers from 0 to 5.

    Left out, and counted in the notes: pairs of MNLI without a gold label, and the rows of QQP
    that line ends inside a question have torn apart.
    """
    if task not in LAYOUTS:
        near = get_close_matches(task.lower().replace("-", ""), LAYOUTS, n=1)
        raise CorpusError(
            f"unknown GLUE task {task!r}; known: {', '.join(LAYOUTS)}",
            fix=f"did you mean {near[0]!r}?" if near else "name one of them",
        )
    path = Path(path)
    layout = _layout(path, task)
    sentences = read_tsv(
        path,
        **layout._asdict(),
        task=task,
        numeric=task == "stsb",
        skip_labels=(_NO_GOLD,) if task == "mnli" else (),
        skip_broken=task == "qqp",
    )
    for sentence in sentences:
        if sentence.annotations[task] in ("-1", -1.0):
            raise _unlabelled(f"{sentence.source}: the label -1", task)
    return sentences


def _layout(path: Path, task: str) -> Layout:
    header = [name.strip() for name in table_lines(path)[0].split("\t")]
    for layout in LAYOUTS[task]:
        texts = {layout.sentence, layout.second} - {None}
        if isinstance(layout.label, int):
            return layout
        if texts <= {*header}:
            if layout.label not in header:
                raise _unlabelled(f"{path}:1: no column {layout.label!r} in its header {header}", task)
            return layout
    expected = " or ".join(", ".join(str(name) for name in layout if name) for layout in LAYOUTS[task])
    raise CorpusError(
        f"{path}:1: expected a header of {task} with the columns {expected}, found {header}",
        fix="check that the file is of this task, or read it with format='tsv' and its columns by name or number",
    )


def _unlabelled(problem: str, task: str) -> CorpusError:
    return CorpusError(
        f"{problem}: the file has no labels of {task}",
        fix="GLUE's test files are published without labels; name its train and dev files alone",
    )
