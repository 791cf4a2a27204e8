"""How a page begins: the question, the models and the data of this run, and how they differ from the paper's."""

from vestige.papers.observed import TITLES, Observed
from vestige.papers.page import Page
from vestige.papers.paper import Paper, Sides
from vestige.report.wording import listing

STAND_IN_LINES = {
    "opinions": "short opinions of this project's own",
    "acceptability": "acceptability judgements of this project's own",
    "treebank": "the built-in treebank",
}


def open_page(page: Page, paper: Paper, sides: Sides) -> None:
    """Title, question and setting."""
    models = listing([side.title for side in sides])
    page.text(f"# {paper.title.format(models=models)}", f"{paper.question} The paper is {paper.cite}.", paper.setting)
    page.text(" ".join(filter(None, [*map(_about, sides), _corpora(sides[0]), _own(paper, sides)])))


def _about(side: Observed) -> str:
    """One sentence on a model."""
    (about, *_) = side.lock["models"]["base"]
    widths = sorted(set(about["widths"]))
    known = side.source in TITLES
    own = " (all-MiniLM-L6-v2), itself tuned for sentence similarity," if known else ""
    width = " to ".join(map(str, dict.fromkeys((widths[0], widths[-1]))))
    return f"{side.title}{own} has {side.layers - 1} blocks of width {width}."


def _corpora(side: Observed) -> str:
    """Which corpora were read, with the sizes of their training parts (or of what there is)."""
    told = []
    for name in side.lock["spec"]["corpora"]:
        sizes = side.sizes(name)
        split = next(split for split in ("train", "test", *sizes) if split in sizes)
        told.append(f"{name} {sizes[split]:,}" + ("" if split == "train" else f" ({split})"))
    limit = side.lock["spec"].get("limit")
    cut = f" (a smoke run: only the first {limit} sentences of every split)" if limit else ""
    return f"Sentences or examples by corpus, of the training part: {', '.join(told)}{cut}."


def _own(paper: Paper, sides: Sides) -> str:
    """Whether anything here is about the paper's own models and data."""
    theirs = [side.title for side in sides if paper.original(side) is not None]
    others = [side.title for side in sides if side.title not in theirs]
    if not others:
        return ""
    if theirs:
        return f"What is found of {listing(others)} is not about the paper's models."
    return (
        "Model or data are not the paper's: nothing below is about the paper's models, and where a finding differs, "
        "model, data or the amount of training may be the reason."
    )
