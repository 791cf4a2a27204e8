from dataclasses import replace
from pathlib import Path

from neuron_frames import explorer_frame, neuron_frames
from report_frames import small_frames
from report_page import EVIL, Page, page_of

from vestige.report.pages.neurons import page as neuron_page


def views_of(explorers: dict) -> list[dict]:
    return neuron_page(replace(neuron_frames(), explorers=explorers).reading, "neurons").explorer


def data_of(page: Page) -> list[dict]:
    return page.data("explorer-data")


def test_a_view_names_its_model_task_and_family() -> None:
    base, tuned = views_of({"base-0": explorer_frame(), "tuned-0": explorer_frame()})
    assert (base["model"], base["run"], tuned["model"], tuned["run"]) == ("base", None, "tuned", 0)
    assert base["family"] == tuned["family"] == ["Part of speech", "base"]
    assert [neuron["rank"] for neuron in base["neurons"]] == [1, 2, 3]
    assert "occurrences" not in base["neurons"][0]


def test_of_several_runs_the_first_is_shown() -> None:
    views = views_of({"tuned-0": explorer_frame(word="first"), "tuned-1": explorer_frame(word="second")})
    assert [view["neurons"][0]["words"][0]["word"] for view in views] == ["first"]


def test_at_most_thirty_neurons_of_a_cell_best_first() -> None:
    frame = explorer_frame(40).iloc[::-1]
    (view,) = views_of({"base-0": frame})
    assert [neuron["rank"] for neuron in view["neurons"]] == list(range(1, 31))


def test_cells_that_are_not_of_the_run_and_empty_ones_are_left_out() -> None:
    assert views_of({"elsewhere": explorer_frame(), "base-0": explorer_frame(0)}) == []


def test_words_cannot_break_out_of_the_page(tmp_path: Path) -> None:
    evil = EVIL + "\"'&<!--"
    frames = neuron_frames(word=evil, label=evil)
    frames.lock["spec"]["study"] = "x"
    page = page_of(frames, tmp_path)
    assert page.tags.count("script") == 6
    assert not any(script.strip() == "alert(1)" for script in page.scripts)
    assert data_of(page)[0]["neurons"][0]["words"][0]["word"] == evil
    assert evil in data_of(page)[0]["neurons"][0]["selected_for"]


def test_a_study_of_neurons_alone_has_no_empty_sections(tmp_path: Path) -> None:
    page = page_of(neuron_frames(), tmp_path)
    assert {"neurons", "explorer", "findings", "provenance"} <= page.ids
    assert {"layers", "controls", "tables", "change", "labels"}.isdisjoint(page.ids)
    assert set(page.specs) == {name for name in page.ids if name.startswith("chart-")}
    assert {address.removeprefix("#") for address in page.addresses} <= page.ids
    assert "100 (5.0 %) of the 2 000 neurons of base" in page.text
    assert "l1 and l2 searched on dev among 0, 0.001" in page.text
    assert "tuned: 2 fine-tuning runs" in page.text
    assert "more than 'no difference found'" in page.text


def test_no_explorer_without_its_data(tmp_path: Path) -> None:
    page = page_of(replace(neuron_frames(), explorers={}), tmp_path)
    assert "neurons" in page.ids
    assert "explorer" not in page.ids
    assert page.tags.count("script") == page_of(small_frames(), tmp_path).tags.count("script")
