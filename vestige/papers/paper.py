"""What a paper is here: the models and corpora that it studies, its statements as tests, and the parts of its page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module

from vestige.errors import VestigeError
from vestige.papers.observed import Observed
from vestige.papers.page import Page
from vestige.papers.published import Original, find, original_of, slips
from vestige.papers.verdicts import Claim

NAMES = ("durrani2020", "durrani2021", "mosbach2020", "merchant2020", "merchant2020_depth")
COMMANDS = {
    "durrani2020": ("durrani2020",),
    "durrani2021": ("durrani2021",),
    "mosbach2020": ("mosbach2020",),
    "merchant2020": ("merchant2020", "merchant2020_depth"),
    "merchant2020_depth": ("merchant2020_depth",),
}
"""By what `vestige reproduce` takes, the studies that it runs: Merchant et al. 2020 are two, of which the second tunes
a model for every depth."""

Sides = Sequence[Observed]
Test = Callable[[Observed], Claim]


@dataclass(frozen=True)
class Statement:
    """A statement of a paper as a test over the tables of a run."""

    name: str
    test: Test
    needs: tuple[str, ...]
    """The analyses that it reads."""


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    heading: str
    write: Callable[[Page, "Paper", Sides], None]
    needs: tuple[str, ...] = ()
    """Base models without these analyses are left out of it; without any left, the section is."""


@dataclass(frozen=True)
class Paper:
    """One paper, or a part of one that is a study of its own."""

    name: str
    cite: str
    """Authors, year, title and place."""
    title: str
    """Of the page; {models} are those of the run."""
    question: str
    """What is asked, in a sentence or two."""
    setting: str
    """What the paper studies, and where the method here departs from its."""
    models: tuple[str, ...]
    """What `full` studies, as ids of the hub."""
    opening: Callable[[Page, "Paper", Sides], None]
    statements: tuple[Statement, ...]
    sections: tuple[Section, ...]
    originals: tuple[Original, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Training sentences that the paper reports, by corpus of the full study."""
    items_of: tuple[str, ...] = ()
    """Analyses whose scored items the page reads."""

    def original(self, side: Observed) -> Original | None:
        """Which of the paper's models it is; None: nothing published is to be shown beside it."""
        return original_of(side, self.originals, dict(self.sizes))

    def claims(self, sides: Sides) -> dict[str, dict[str, Claim]]:
        """By name of a statement, what it comes to for every base model that it can be held against."""
        held = {
            statement.name: {side.title: statement.test(side) for side in sides if side.has(*statement.needs)}
            for statement in self.statements
        }
        return {name: claims for name, claims in held.items() if claims}

    def by_model(
        self,
        page: Page,
        sides: Sides,
        head: Sequence[str],
        keys: Sequence[tuple[str, ...]],
        columns: Mapping[str, Callable[..., str]],
        caption: str,
        table: str = "",
    ) -> None:
        """A table whose rows have keys and whose columns are those of every model, and the paper's own beside them.

        A column is called with the base model and the key of the row. The paper's number is that of `published.csv`
        in `table`, whose row is the key, its parts joined by ' > ', and whose column is the title of the column.
        """
        heads, lines = list(head), [list(key) for key in keys]
        originals = []
        for side in sides:
            original = self.original(side) if table else None
            for title, cell in columns.items():
                heads.append(f"{side.title}, {title}" if title else side.title)
                for line, key in zip(lines, keys, strict=True):
                    line.append(cell(side, *key))
                if original is not None:
                    heads.append(f"{original.title} in the paper{', ' + title if title else ''}")
                    for line, key in zip(lines, keys, strict=True):
                        line.append(find(self.name, table, original.title, " > ".join(key), title))
            originals += [original.title] if original is not None else []
        page.table(heads, lines, caption, words=len(head))
        page.text(slips(self.name, table, originals))


def find_paper(name: str) -> Paper:
    """The paper, or the part of one, of this name."""
    if name not in NAMES:
        raise VestigeError(f"no paper is called {name!r}", fix=f"choose one of {', '.join(COMMANDS)}")
    found = import_module(f"vestige.papers.{name}.declaration").PAPER
    assert isinstance(found, Paper)
    return found


def studies_of(name: str) -> tuple[str, ...]:
    """The studies that reproduce a paper."""
    if name not in COMMANDS:
        raise VestigeError(f"no paper is called {name!r}", fix=f"choose one of {', '.join(COMMANDS)}")
    return COMMANDS[name]


def write_sections(page: Page, paper: Paper, sides: Sides) -> None:
    """Every section for the base models that have what it needs."""
    for section in paper.sections:
        mine = [side for side in sides if side.has(*section.needs)]
        if mine:
            page.text(section.heading)
            section.write(page, paper, mine)
