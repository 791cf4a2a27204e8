import json
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import vl_convert
from neuron_frames import neuron_frames
from report_frames import CONVERGED, DURRANI, MLP, Frames, lock_of, results_frame, small_frames
from report_page import EVIL, Page, page_of

from vestige.report.html import packed, unpacked


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return page_of(small_frames([("bank", "upos"), ("bank", "deprel")]), tmp_path_factory.mktemp("report"))


def test_nothing_is_fetched(page: Page) -> None:
    assert page.addresses and {address.removeprefix("#") for address in page.addresses} <= page.ids
    assert not {"link", "iframe", "img", "object", "embed", "base"} & set(page.tags)
    assert not any("@import" in style or "url(" in style for style in page.styles)
    assert "://" not in json.dumps(page.specs)


def test_sections_stand_in_order(page: Page) -> None:
    wanted = ["Findings", "Layer by layer", "Change at a glance", "Controls", "Labels that differ most"]
    places = [page.text.index(name) for name in [*wanted, "Tables", "The fine-tuning", "Provenance"]]
    assert places == sorted(places)
    assert "Layer 3 of tuned loses 3.1 points" in page.text
    assert "embeddings" in page.text


def test_every_chart_has_its_place_and_fills_it(page: Page) -> None:
    assert set(page.specs) == {name for name in page.ids if name.startswith("chart-")}
    assert all(spec["width"] == "container" for spec in page.specs.values())
    assert all(spec["description"] for spec in page.specs.values())


def test_numbers_are_written_with_a_true_minus(page: Page) -> None:
    assert "\u22123.10" in page.text
    assert not re.search(r"(?<![\w-])-\d", page.text.split("Provenance")[0])


def test_rare_labels_are_left_out(page: Page) -> None:
    text = json.dumps(page.specs)
    assert "NOUN  (300)" in text
    assert "X  (3)" not in text


def test_text_of_corpora_cannot_break_out(tmp_path: Path) -> None:
    frames = small_frames([("bank", EVIL), (EVIL, "upos")], tuned=(EVIL,), label=EVIL)
    frames.lock["spec"]["about"] = frames.lock["spec"]["study"] = EVIL
    frames.lock["notes"] = [EVIL]
    plain = page_of(small_frames([("bank", "upos"), ("web", "upos")]), tmp_path)
    page = page_of(frames, tmp_path)
    assert page.tags.count("script") == plain.tags.count("script") == 4
    assert not any(script.strip() == "alert(1)" for script in page.scripts)
    assert EVIL in page.text
    assert EVIL in json.dumps(page.specs)


def test_data_is_safe_in_a_script_and_still_the_same() -> None:
    value = {"a": "</script><!-- & \u2028"}
    assert re.fullmatch("[A-Za-z0-9+/=]+", packed(value))
    assert unpacked(packed(value)) == value


@pytest.mark.parametrize("frames", [small_frames, neuron_frames])
def test_charts_are_drawn_whatever_characters_a_label_holds(frames: Callable[..., Frames], tmp_path: Path) -> None:
    """Vega itself draws them: it ends an expression at a line separator, and a picture with a NUL is no XML."""
    label = "A\u2028B\u2029C\x00D\x85E"
    page = page_of(frames(label=label), tmp_path)
    own = [spec for spec in page.specs.values() if "A\\u2028B\\u2029C\\u0000D\\u0085E" in values(spec)]
    assert own
    for spec in own:
        assert "D\\u0085E" in vl_convert.vegalite_to_svg(json.dumps(spec)).replace("\u2026", "")
    assert not re.search("[\x00-\x09\x85\u2028\u2029]", values(page.specs))


def values(value: object) -> str:
    """All strings in a specification."""
    if isinstance(value, dict):
        return "\n".join(map(values, value.values()))
    return "\n".join(map(values, value)) if isinstance(value, list) else str(value)


def test_text_that_is_no_unicode_is_written_out(tmp_path: Path) -> None:
    frames = small_frames()
    frames.lock["spec"]["about"] = "half a \ud83d"
    assert "half a \\ud83d" in page_of(frames, tmp_path).text


def test_several_models_tasks_and_settings(tmp_path: Path) -> None:
    frames = small_frames([("bank", "upos"), ("web", "upos")], tuned=("a", "b"), parameters=(DURRANI, CONVERGED, MLP))
    page = page_of(frames, tmp_path)
    assert "Part of speech (web), b" in page.text
    assert "a: linear probe, durrani" in page.text
    assert "Linear and mlp probe" in page.text
    curves_and_changes = 2 * 2 * 2 * 3
    assert len(page.specs) > curves_and_changes


def test_a_page_of_one_sentence_has_no_intervals(tmp_path: Path) -> None:
    frames = small_frames()
    sides = ["low", "high", "base_low", "base_high", "tuned_low", "tuned_high", "sd_items"]
    unknown = dict.fromkeys((side for side in sides if side in frames.comparisons), float("nan"))
    comparisons = frames.comparisons.assign(**unknown, p=1.0, q=1.0, verdict="undecided", sentences=1)
    page = page_of(Frames(frames.results, comparisons, frames.cells, frames.lock), tmp_path)
    assert "undecided" in page.text and "nan" not in page.text.lower().split()


def test_a_study_that_compares_nothing_has_curves_and_controls(tmp_path: Path) -> None:
    results = results_frame(["base", "random twin"], [("bank", "upos")], ["p0"], 4)
    page = page_of(Frames(results, pd.DataFrame(), small_frames().cells, lock_of(())), tmp_path)
    assert "No model of this study is compared" in page.text
    assert "Change at a glance" not in page.text
    assert "control-task accuracy (%)" in json.dumps(page.specs)
    assert "accuracy, random twin" in page.text


def test_a_baseline_far_below_is_told_instead_of_drawn(page: Page) -> None:
    assert (
        "Off the axis: random twin 60.1 %, majority label 20.0 % and majority label of the word type 70.0 %."
        in page.text
    )
