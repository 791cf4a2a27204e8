"""Tokenizers that are missing, borrowed or do not know the words of a corpus: refused, counted and said on the page."""

import shutil

import pytest
import tiny
from small_study import study

from vestige.corpus.types import Corpus, Sentence
from vestige.errors import ModelError
from vestige.models.files.load import load_model
from vestige.report.warnings import warnings
from vestige.study.run import Study
from vestige.study.tokens import check_unknown


@pytest.fixture
def bare(place, tmp_path):
    """What model.save_pretrained() alone leaves: the base's own weights, and no tokenizer."""
    folder = tmp_path / "bare"
    shutil.copytree(place / "base", folder, ignore=shutil.ignore_patterns("tokenizer*", "vocab*", "special_tokens*"))
    return folder


@pytest.mark.parametrize("family", ["bert", "gpt2", "roberta", "qwen", "t5", "xlnet", "deberta", "modernbert"])
def test_a_folder_without_tokenizer_files_is_refused(family, tmp_path):
    tiny.model(family).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"no tokenizer in it|its tokenizer does not load") as raised:
        load_model(tmp_path)
    assert "--tokenizer" in raised.value.fix
    tiny.tokenizer(family).save_pretrained(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "config.json").write_bytes((tmp_path / "config.json").read_bytes())
    assert load_model(tmp_path, tokenizer=tmp_path / "elsewhere").encode([Sentence("a", ("paint",))])


def test_the_bases_tokenizer_is_taken_when_asked_for_and_the_page_says_so(place, bare, tmp_path, cache):
    raw = study(place)
    raw["models"]["other"] = {"load": str(bare), "reference": "base", "tokenizer": "base"}
    run = Study.from_dict(raw, tmp_path / "run", cache=cache).run()
    accuracy = run.comparisons[run.comparisons["metric"] == "accuracy"]
    assert len(accuracy) and (accuracy["difference"] == 0).all()
    said = "Tokenizers from elsewhere, as the study asks for: that of base for other."
    assert said in warnings(run.reading)
    assert said in run.report().read_text() and said in run.markdown().read_text()


def test_compare_takes_the_bases_tokenizer_and_says_what_becomes_of_a_sink(place, bare):
    from vestige.study.compare import comparison

    spec = comparison(
        str(place / "base"), str(bare), str(place), analyses=["layer_probe"], tokenizer="base", sink="keep",
        on_unknown="allow",
    ).spec  # fmt: skip
    assert (spec.models["base"].tokenizer, spec.models["tuned"].tokenizer) == (None, "base")
    assert {spec.models[name].read.sink for name in ("base", "tuned")} == {"keep"}
    assert spec.compute.on_unknown == "allow"


def unknown_corpus(share: float) -> Corpus:
    """Sentences of which a share of the words is written in letters that the tiny tokenizers never saw."""
    words = ["\u4eac" if number < round(20 * share) else "." for number in range(20)]
    sentences = tuple(
        Sentence(f"s{n}", tuple(words), annotations={"tag": tuple("xy"[(n + at) % 2] for at in range(20))})
        for n in range(8)
    )
    return Corpus("strange", {"train": sentences, "dev": sentences, "test": sentences}, {"tag": "token"})


@pytest.mark.parametrize(("share", "refused"), [(0.0, False), (0.15, False), (0.25, True)])
def test_a_tokenizer_that_does_not_know_the_words_is_refused(tiny_encoder, share, refused):
    encoder = tiny_encoder("bert")
    if not refused:
        return check_unknown(encoder, "base", "strange", unknown_corpus(share))
    with pytest.raises(ModelError, match=r"model 'base' on corpus 'strange': 25 % of the tokens") as raised:
        check_unknown(encoder, "base", "strange", unknown_corpus(share))
    assert "on_unknown: allow" in raised.value.fix


def test_unknown_tokens_are_counted_in_the_rows_and_said_before_any_finding(place, tmp_path, cache):
    from vestige.study.corpora import Given
    from vestige.study.spec import make_spec

    raw = {
        "study": "strange",
        "models": {"base": str(place / "base")},
        "corpora": {"strange": {"files": {}}},
        "analyses": [{"layer_probe": {"tasks": "strange/tag", "seeds": 1}}],
        "compute": {"on_unknown": "allow"},
    }
    given = Given(corpora={"strange": unknown_corpus(0.25)})
    run = Study(make_spec(raw), tmp_path / "run", given=given, cache=cache).run()
    row = run.results[run.results["metric"] == "unknown_tokens"].iloc[0]
    assert (row["value"], row["n"]) == (3 * 8 * 5, 3 * 8 * 20)
    (said,) = (line for line in warnings(run.reading) if "unknown" in line)
    assert said.startswith("25.0 % of the tokens of strange (120 of 480) are unknown to the tokenizer of base")
    page = run.report().read_text()
    assert page.index("Before reading on") < page.index(said) < page.index("No model of this study is compared")
    with pytest.raises(ModelError, match="unknown to its tokenizer"):
        Study(make_spec({**raw, "compute": {}}), tmp_path / "refused", given=given, cache=cache).run()
