"""In a notebook: the report is embedded, and what is printed is one line that tells something."""

import json
import re
from html.parser import HTMLParser

import pytest
import tiny
from report_frames import small_frames
from report_page import EVIL
from small_study import study

import vestige
from vestige.report.front import read_pages
from vestige.report.notebook import frame, summary
from vestige.study.finished import StudyRun
from vestige.study.run import Study
from vestige.study.watch import WatchCallback


@pytest.fixture(scope="module")
def run(place, tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebook")
    return Study.from_dict(study(place), folder / "run", cache=folder / "cache").run()


class Frames(HTMLParser):
    """The attributes of every frame."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[dict] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "iframe":
            self.found.append(dict(attrs))


def test_the_frame_holds_the_page_and_names_no_file(run):
    page = run.report().read_text(encoding="utf-8")
    (shown,) = Frames(frame(page)).found
    assert shown["srcdoc"] == page and "src" not in shown
    assert frame('a "<b>" & c').count("<") == 4, "nothing of the page stands outside of the frame"


def test_a_kernel_displays_the_page(run, tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    code = f"from vestige.study.finished import StudyRun\nrun = StudyRun.open({str(run.tables.folder)!r})\nrun.show()"
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code), nbformat.v4.new_code_cell("run")])
    nbclient.NotebookClient(book, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown, printed = book.cells
    (found,) = Frames(next(o for o in shown.outputs if o.output_type == "display_data").data["text/html"]).found
    assert found["srcdoc"] == (run.tables.folder / "report.html").read_text(encoding="utf-8")
    assert printed.outputs[0].data["text/plain"] == repr(run)
    assert printed.outputs[0].data["text/html"] == run._repr_html_()


class Elements(HTMLParser):
    """Every element with its attributes, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def test_the_summary_is_safe_in_any_notebook(run):
    """VS Code and marimo keep scripts and style sheets out; ids would collide where it is shown twice."""
    shown = Elements(run._repr_html_())
    assert {tag for tag, _ in shown.found} <= {"div", "p", "strong", "em", "ul", "li", "small", "code"}
    assert not any(attributes for _, attributes in shown.found)
    assert "base" in shown.text and str(run.tables.folder) in shown.text
    assert all(one.text in shown.text for one in run.findings if one.weight >= 1)


def test_names_of_a_study_stay_text(tmp_path):
    frames = small_frames(tuned=(EVIL,), label=EVIL)
    frames.lock["spec"]["study"] = EVIL
    named = read_pages(frames.reading)
    shown = Elements(summary(frames.reading, named, EVIL, 2))
    assert EVIL in shown.text and "2 analyses failed" in shown.text
    assert not {"script", "img"} & {tag for tag, _ in shown.found}


def test_a_folder_that_cannot_be_read_is_named(tmp_path):
    assert "nothing that can be read" in StudyRun.open(tmp_path / "nowhere")._repr_html_()


def _pairs(place, run, cache):
    corpus = vestige.load_corpus("treebank")
    model = vestige.load_model(tiny.model("bert"), tokenizer=tiny.tokenizer("bert"), name="mine")
    vectors = vestige.represent(model, corpus["dev"][:3], ["mean"], cache=cache)["mean"]
    callback = WatchCallback(tiny.tokenizer("bert"), corpus, ["upos"], every=50, folder=cache / "watch")
    unread = StudyRun.open(cache / "nowhere")
    return [
        (
            corpus,
            r"Corpus\('treebank': train 1037, dev 133, test 300 sentences; tasks upos \(token\), .*head \(tree\)\)",
        ),
        (corpus.task("xpos"), r"Task\(treebank/xpos: labels at level token; train 1037, .* sentences\)"),
        (model, r"HuggingFaceEncoder\('mine': bert, 3 blocks x 32, 0\.\dM parameters, reads 64 tokens, on cpu\)"),
        (vectors, r"Representations\('mine': mean pooling, \d+ rows of 4 layers x 32\)"),
        (
            callback,
            r"WatchCallback\(Watch\(layer_probe, similarity on treebank every 50 steps; nothing .*; in .*watch\)\)",
        ),
        (run, r"StudyRun\('tiny': layer_probe of base, other on words; in .*run\)"),
        (unread, r"StudyRun\(nothing that can be read in .*nowhere\)"),
        (Study.from_dict(study(place)), r"Study\('tiny': layer_probe of base, other on words; in runs/tiny-\w{8}\)"),
    ]


def test_what_is_printed_is_one_line_that_tells_something(place, run, cache):
    found = [(repr(thing), wanted) for thing, wanted in _pairs(place, run, cache)]
    assert [line for line, wanted in found if not re.fullmatch(wanted, line)] == []
    assert max(len(line) for line, _ in found) < 300


def test_failures_are_part_of_the_line(run, tmp_path):
    lock = {**run.tables.lock, "failed": [{"analysis": "attention"}]}
    (tmp_path / "study.lock.json").write_text(json.dumps(lock))
    assert "on words; 1 failed; in" in repr(StudyRun.open(tmp_path))
