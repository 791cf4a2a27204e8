"""The report inside a notebook: the page itself is part of the output, for a notebook's server serves no other file."""

from html import escape

HEIGHT = 800


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
