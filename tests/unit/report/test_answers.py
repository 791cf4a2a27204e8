"""The paragraph that opens the report: every sentence is backed by verdicts or intervals, and links to its evidence."""

from dataclasses import replace

import pandas as pd
from report_frames import CONVERGED, comparison, small_frames

from vestige.report.front import paragraphs, read_pages
from vestige.report.html import render
from vestige.report.markdown import render as render_markdown
from vestige.report.pages.freezing import _harmless
from vestige.report.pages.layer_probe import page
from vestige.report.types import Answer, Page


def answer(changes: list[float], **more) -> Answer:
    table = comparison(changes, **more)
    frames = small_frames([("c", "upos")], parameters=(CONVERGED,), changes=[0.0] * len(changes))
    (found,) = page(replace(frames, comparisons=table).reading, "layer_probe").answers
    return found


def test_what_is_lost_is_named_with_its_layers_and_the_largest() -> None:
    said = answer([0.0, -0.02, -0.031], corpus="c", task="upos")
    assert said.text == "Probes read less part of speech from layers 1 and 2 (up to 3.1 points, at layer 2)."
    assert (said.topic, said.model, said.kind) == ("knowledge", "tuned", "lower")


def test_both_directions() -> None:
    said = answer([0.02, 0.0, -0.031], corpus="c", task="upos").text
    assert said.startswith(
        "Probes read less part of speech from layer 2 (3.1 points), and more part of speech from the"
    )


def test_no_change_is_claimed_only_where_it_is_shown() -> None:
    assert answer([0.0, 0.0, 0.0], corpus="c", task="upos").text == (
        "What probes read is unchanged within \u00b10.5 points at every layer."
    )
    table = comparison([0.0, 0.0], corpus="c", task="upos").assign(verdict="undecided")
    frames = small_frames([("c", "upos")], parameters=(CONVERGED,), changes=[0.0, 0.0])
    (found,) = page(replace(frames, comparisons=table).reading, "layer_probe").answers
    assert (found.text, found.kind) == (
        "No change of more than \u00b10.5 points is shown in what probes read.",
        "undecided",
    )


def test_sentences_follow_the_topics_and_link_to_their_page() -> None:
    first = Page("A", answers=[Answer("advice", "m", "Freeze."), Answer("knowledge", "m", "Less.")])
    second = Page("B", answers=[Answer("parameters", "m", "Moved."), Answer("knowledge", "other", "More.")])
    found = paragraphs([("a", first), ("b", second)])
    assert [(model, [(one.text, name) for one, name in said]) for model, said in found] == [
        ("m", [("Moved.", "b"), ("Less.", "a"), ("Freeze.", "a")]),
        ("other", [("More.", "b")]),
    ]


def test_the_page_opens_with_it() -> None:
    reading = small_frames([("c", "upos")], parameters=(CONVERGED,), changes=[0.0, -0.03]).reading
    ((model, ((said, name), *_)), *_) = paragraphs(read_pages(reading))
    written = render(reading)
    assert f'<span class="is-{said.kind}">' in written and f'<a href="#{name}"' in written
    assert written.index('class="answer"') < written.index('class="overview"')
    assert f"**{model}.** Probes read less" in render_markdown(reading)


def depths(rows: list[tuple[float, float, float]]) -> pd.DataFrame:
    """Scores with nothing frozen (-1), the embeddings (0), and one block more each."""
    table = pd.DataFrame(rows, columns=["value", "low", "high"], index=range(-1, len(rows) - 1)).astype(float)
    return table.assign(intervals=1, runs=1)


def test_freezing_is_advised_only_as_deep_as_no_loss_is_shown_without_a_gap() -> None:
    same, worse = (0.9, 0.88, 0.92), (0.5, 0.48, 0.52)
    assert _harmless(depths([same, same, same, worse, same])) == [0.0, 1.0]
    assert _harmless(depths([same, worse, same])) == []
    unknown = (0.9, float("nan"), float("nan"))
    assert _harmless(depths([same, unknown, same])) == []
    assert _harmless(depths([unknown, same])) == []
    few, fewer = (0.567, 0.43, 0.68), (0.40, 0.28, 0.53)
    assert _harmless(depths([few, few, fewer])) == [0.0], "intervals overlap, and 16.7 points are a cost"
