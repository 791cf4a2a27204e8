"""Published numbers are the papers', line by line, and stand beside ours only where model and data are the paper's."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import planted
import pytest

from vestige.papers.paper import NAMES, find_paper
from vestige.papers.published import MARK, Published, find, numbers, slips

TEXTS = {"durrani2021": "000", "durrani2020": "001", "mosbach2020": "002", "merchant2020": "004"}
"""How the files of the papers' texts begin."""


@pytest.fixture(scope="module")
def papers(data) -> Path:
    folder = data.parent / "papers"
    if not folder.is_dir():
        pytest.skip(f"no folder {folder}: it holds the texts of the papers, which the project does not carry")
    return folder


@cache
def lines_of(folder: Path, paper: str, number: str) -> list[list[str]]:
    """The cells of the lines between the caption before a table's and its own."""
    (file,) = folder.glob(f"{TEXTS[paper]}_*.txt")
    lines = file.read_text().splitlines()
    caption = next(place for place, line in enumerate(lines) if line.startswith(f"Table {number}:"))
    before = [place for place in range(caption) if re.match(r"Table \d+:", lines[place])]
    return [line.split("\t") for line in lines[max(before, default=-1) + 1 : caption] if "\t" in line]


def plain(text: str) -> str:
    return re.sub(r"</?b>", "", text).strip()


def printed(folder: Path, number: Published) -> str:
    """The cell that the paper prints there."""
    *above, label = number.printed_row.split(" > ")
    lines = lines_of(folder, number.paper, re.findall(r"\d+", number.table)[0])
    if above:
        headings = [" ".join(filter(None, map(plain, cells))) for cells in lines]
        lines = lines[headings.index(above[0]) :]
    return next(cells for cells in lines if plain(cells[0]) == label)[number.place]


def compact(text: str) -> str:
    """Without the marks that set an exponent or a formula."""
    return re.sub(r"</?sup>|[$^{} ]", "", text)


@pytest.mark.parametrize("paper", TEXTS)
def test_every_number_is_where_the_paper_prints_it(papers, paper):
    mine = [number for number in numbers() if number.paper == paper]
    assert len(mine) > 40
    for number in mine:
        there = compact(printed(papers, number))
        assert compact(number.value) in (there, *there.split("/")), (number, there)


def test_no_number_is_listed_twice():
    keys = [(one.paper, one.table, one.model, one.row, one.column) for one in numbers()]
    assert len(keys) == len(set(keys))


def test_known_slips_are_marked_and_told():
    assert find("durrani2021", "Table 7, POS", "RoBERTa", "Base", "selectivity, all") == f"22.65{MARK}"
    assert find("durrani2021", "Table 5", "XLNet", "Base", "top 5 %") == f"96.5{MARK}"
    assert find("durrani2020", "Table 3", "ELMo", "SEM > selected", "") == f"307/5%{MARK}"
    assert find("durrani2020", "Table 1", "XLNet", "Chunking > All", "") == f"94.15{MARK}"
    assert find("durrani2020", "Table 1", "BERT", "POS > Top", "") == "90.16"
    assert "repeats" in slips("durrani2021", "Table 5", ["XLNet"]) and not slips("durrani2021", "Table 5", ["BERT"])
    assert not find("mosbach2020", "Table 2", "RoBERTa", "coordination inversion > SentEval", "[CLS], CoLA, upper")


@pytest.mark.parametrize(("paper", "table"), [("durrani2020", "Table 4"), ("durrani2021", "Table 3")])
def test_the_sizes_that_data_are_told_by_are_those_of_the_paper(paper, table):
    printed = {row: int(find(paper, table, "", row, "train")) for row in ("POS", "SEM", "Chunking")}
    sizes = find_paper(paper).sizes
    assert (sizes["ptb"], sizes["pmb_semtags"], sizes["conll2000"]) == tuple(printed.values())


def paper_run(paper, **changes):
    """What a run of a paper's first model at the full scale looks like from afar."""
    original = paper.originals[0]
    side = planted.observed(planted.rows([]), source=original.id, layers=13)
    side.lock["models"]["base"][0] |= {"widths": [original.width] * 13, "type": original.kind}
    corpora = {name: {"splits": {"train": {"sentences": size}}} for name, size in paper.sizes.items()}
    return replace(side, lock={**side.lock, "corpora": corpora}, **changes)


@pytest.mark.parametrize("name", NAMES)
def test_numbers_stand_beside_the_papers_model_on_the_papers_data_alone(name):
    paper = find_paper(name)
    same = paper_run(paper)
    assert paper.original(same) == paper.originals[0]
    assert paper.original(replace(same, source="elsewhere/other-model")) is None
    assert paper.original(replace(same, source=f"somebody/{paper.originals[0].id}")) is None
    few = {key: {"splits": {"train": {"sentences": 100}}} for key in paper.sizes}
    assert paper.original(replace(same, lock={**same.lock, "corpora": few})) is None
    limited = {**same.lock, "spec": {**same.lock["spec"], "limit": 10**9}}
    assert paper.original(replace(same, lock=limited)) is None
    small = {**same.lock["models"]["base"][0], "widths": [32] * 13}
    assert paper.original(replace(same, lock={**same.lock, "models": {"base": [small]}})) is None
