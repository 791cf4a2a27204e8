"""A figure, or else a table, of every analysis from a kept run, for its page: `python docs/figures.py`.

Writes docs/images/analyses: NAME.svg where there is something to draw, and index.json, which says of which run each is.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from vestige.report.export import Exported, shown, sized
from vestige.report.names import citation
from vestige.report.table_text import markdown_table
from vestige.report.types import Figure
from vestige.study.finished import StudyRun

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "docs" / "images" / "analyses"
WIDTH, MOST_ROWS = 420, 12
CHOSEN = {
    "attention": ("mosbach2020", "figure-ewt-bigram-shift-bigram-shift-entropy-of-attention-by-layer"),
    "concepts": ("what_happened", "figure-ewt-xpos-the-share-of-words-whose-base-cluster-is-found-again-by-layer"),
    "description_length": ("merchant2020", "figure-gum-xpos-bits-per-label-by-layer"),
    "edge_probe": ("merchant2020", "figure-ewt-pos-pos-spans-weight-in-the-mix-by-layer"),
    "erasure": ("merchant2020", "figure-gum-xpos-accuracy-of-a-probe-at-the-erased-layer-by-layer-base"),
    "freezing": ("merchant2020_depth", "figure-mnli-mnli-accuracy-by-blocks-frozen"),
    "geometry": ("what_happened", "figure-ewt-xpos-ewt-participation-ratio-by-layer"),
    "layer_probe": ("durrani2021", "figure-ewt-xpos-part-of-speech-fine-ewt-sst2-probe-accuracy-by-layer"),
    "lens": ("what_happened", ""),
    "minimal_pairs": ("what_happened", ""),
    "neuron_rankers": ("durrani2020", "figure-pmb-semtag-semantic-tags-pmb-accuracy-by-share"),
    "neuron_redundancy": ("durrani2020", "figure-pmb-semtag-semantic-tags-pmb-accuracy-by-correlation"),
    "neurons": ("durrani2020", "figure-ewt-xpos-where-they-are"),
    "output_drift": ("what_happened", ""),
    "patched_probe": ("what_happened", ""),
    "patching": ("what_happened", ""),
    "perplexity": ("mosbach2020", "figure-wikitext2-text-perplexity-by-last-blocks-replaced-by-the-reference-s"),
    "probe_transfer": ("what_happened", ""),
    "pruning": ("durrani2021", "figure-sst2-sst2-accuracy-by-blocks-dropped"),
    "sentence_probe": ("mosbach2020", ""),
    "similarity": ("merchant2020", "figure-mnli-mnli-rsa-by-layer"),
    "structural_probe": ("merchant2020", "figure-ewt-trees-head-head-ewt-trees-uuas-by-layer"),
    "truncation": ("merchant2020_depth", "figure-mnli-mnli-accuracy-by-first-blocks-kept"),
    "v_information": ("what_happened", "figure-ewt-xpos-v-information-lost-by-layer"),
    "weights": ("what_happened", "figure-relative-change-of-weights-by-layer-and-kind-sst2"),
}
"""The kept run, and the figure as `vestige export` names it; none: the first of the analysis."""


def chosen(analysis: str, found: list[Exported], name: str) -> Exported | None:
    """The figure of this name, else the first figure, else the first table."""
    mine = [one for one in found if one.name.startswith(f"{analysis}/")]
    if name:
        return next(one for one in mine if one.name == f"{analysis}/{name}")
    figures = [one for one in mine if isinstance(one.thing, Figure)]
    return next(iter(figures or mine), None)


def described(one: Exported) -> dict[str, Any]:
    """Its caption, and the table itself where there is no figure."""
    if isinstance(one.thing, Figure):
        return {"caption": one.caption}
    return {"caption": one.caption, "table": markdown_table(replace(one.thing, rows=one.thing.rows[:MOST_ROWS]))}


def main() -> None:
    """Draw them all."""
    import vl_convert

    TARGET.mkdir(parents=True, exist_ok=True)
    runs = {name: StudyRun.open(ROOT / "examples" / name / "results").reading for name, _ in CHOSEN.values()}
    found = {name: list(shown(reading)) for name, reading in runs.items()}
    index = {}
    for analysis, (example, name) in CHOSEN.items():
        one = chosen(analysis, found[example], name)
        if one is None:
            print(f"{example} has nothing of {analysis}")
            continue
        index[analysis] = {"example": example, "source": citation(runs[example]), **described(one)}
        if isinstance(one.thing, Figure):
            picture = vl_convert.vegalite_to_svg(sized(one.thing, WIDTH))
            (TARGET / f"{analysis}.svg").write_text(picture + "\n", encoding="utf-8")
    (TARGET / "index.json").write_text(json.dumps(index, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
