"""A run inside a notebook: a summary as its output, and the whole report in a frame."""

from collections.abc import Sequence
from html import escape

from vestige.report.findings import findings_html
from vestige.report.front import opening, overview, paragraphs, statement
from vestige.report.reading import Reading
from vestige.report.types import Page

HEIGHT = 800


def summary(reading: Reading, named: Sequence[tuple[str, Page]], folder: str, failed: int) -> str:
    """What a run shows, as HTML that any notebook may hold.

    It has no script, no style sheet, no id and no address; colours are those of the notebook around it.
    """
    pages = [page for _, page in named]
    found = opening(pages)
    parts = [f"<p><strong>{escape(reading.title)}</strong>: {escape(statement(reading))}</p>"]
    if failed:
        parts.append(f"<p><strong>{failed} {'analysis' if failed == 1 else 'analyses'} failed</strong></p>")
    for model, said in paragraphs(named):
        parts.append(f"<p><strong>{escape(model)}.</strong> {escape(' '.join(answer.text for answer, _ in said))}</p>")
    if text := overview(reading, pages, found):
        parts.append(f"<p>{escape(text)}</p>")
    parts.append(findings_html(found))
    parts.append(f"<p><small>{escape(folder)}; <code>.show()</code> opens the report</small></p>")
    return f"<div>{''.join(parts)}</div>"


def frame(page: str) -> str:
    """A frame that holds the page; what it links or asks for does not touch the notebook around it."""
    return (
        f'<div><iframe srcdoc="{escape(page)}" style="width: 100%; height: {HEIGHT}px; border: 0" '
        'title="vestige report"></iframe></div>'
    )


def show_in_notebook(page: str) -> bool:
    """Whether a notebook is there to show the page."""
    try:
        from IPython import get_ipython
        from IPython.display import HTML, display
    except ImportError:
        return False
    shell = get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return False
    display(HTML(frame(page)))
    return True
