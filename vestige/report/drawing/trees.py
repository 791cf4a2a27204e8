"""Trees that a probe found, drawn beside the ones that were annotated: arcs above and below the words."""

from collections.abc import Sequence

from markupsafe import Markup, escape

_CHARACTER, _GAP, _STEP, _EDGE = 7.6, 16, 15, 12
"""Pixels: of a letter, between words, of height per word that an arc spans, of the margin."""


def gold_edges(heads: Sequence[int], punctuation: Sequence[int]) -> set[tuple[int, int]]:
    """Undirected edges between words that are no punctuation, from heads counted from 1 (0: the root)."""
    edges = set()
    for word, head in enumerate(heads):
        if head > 0 and word not in punctuation and head - 1 not in punctuation:
            edges.add((min(word, head - 1), max(word, head - 1)))
    return edges


def tree_picture(words: Sequence[str], gold: set[tuple[int, int]], found: set[tuple[int, int]]) -> Markup:
    """An SVG: annotated edges above the words, those of the probe below, wrong ones dashed."""
    widths = [_CHARACTER * max(1, len(word)) for word in words]
    centres, at = [], float(_EDGE)
    for width in widths:
        centres.append(at + width / 2)
        at += width + _GAP
    above, below = (_STEP * max([b - a for a, b in edges], default=1) + 10 for edges in (gold, found))
    line = above + 16
    parts = [_arc(centres, edge, above, -1, "gold") for edge in sorted(gold)]
    parts += [_arc(centres, edge, line + 8, 1, "found" if edge in gold else "wrong") for edge in sorted(found)]
    parts += [
        f'<text x="{x:.1f}" y="{line}" text-anchor="middle">{escape(word)}</text>'
        for x, word in zip(centres, words, strict=True)
    ]
    size = f"{at - _GAP + _EDGE:.0f}", f"{line + 8 + below:.0f}"
    return Markup(
        f'<svg class="tree" viewBox="0 0 {size[0]} {size[1]}" width="{size[0]}" height="{size[1]}" role="img" '
        f'aria-label="{len(found & gold)} of {len(gold)} edges recovered">{"".join(parts)}</svg>'
    )


def _arc(centres: Sequence[float], edge: tuple[int, int], start: float, side: int, kind: str) -> str:
    left, right = centres[edge[0]] + 3, centres[edge[1]] - 3
    top = start + side * _STEP * (edge[1] - edge[0])
    curve = f"C{left:.1f} {top:.1f} {right:.1f} {top:.1f} {right:.1f} {start:.1f}"
    return f'<path class="{kind}" d="M{left:.1f} {start:.1f} {curve}"/>'
