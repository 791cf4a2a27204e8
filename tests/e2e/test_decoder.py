"""A trained decoder by default settings: copies that hardly differ are no finding, at no layer."""

import pytest
import smollm2

import vestige
from vestige.report.limits import limits


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    model, tokenizer = smollm2.load()
    folder = tmp_path_factory.mktemp("decoder")
    texts = [" ".join(sentence.words) for sentence in vestige.load_corpus("opinions")["train"]]
    copies = [smollm2.with_noise(model, 0.01), smollm2.tuned(model, tokenizer, texts, steps=3)]
    return vestige.compare(
        model,
        copies,
        vestige.load_corpus("treebank").limit(45),
        tokenizer=tokenizer,
        tasks=["upos"],
        analyses=[{"layer_probe": {"seeds": 1, "control": False}}],
        random_twin=False,
        folder=folder / "run",
        cache=folder / "cache",
    )


def test_copies_with_noise_or_a_few_steps_of_tuning_lose_nothing(run):
    assert not set(run.comparisons["verdict"]) & {"lower", "higher", "failed probe"}
    assert run.comparisons["difference"].abs().max() < 0.03
    page = run.report().read_text()
    assert not any(word in page for word in (" loses ", " lose ", "probes of base failed"))


def test_layers_with_the_sink_are_read_as_well_as_those_without(run):
    rows = run.results[run.results["metric"].isin(["accuracy", "word_type_majority"])]
    by_layer = rows[rows["metric"] == "accuracy"].set_index(["model", "layer"])["value"]
    for model in ("base", "tuned-1", "tuned-2"):
        types = rows[(rows["metric"] == "word_type_majority") & (rows["model"] == model)]["value"].item()
        assert by_layer[model].loc[[12, 13]].min() > types
        assert by_layer[model].loc[12] > by_layer[model].loc[11] - 0.03


def test_what_was_left_out_is_counted_alike_and_said(run):
    facts = run.tables.lock["tokens"]
    assert all(of["sink_left_out"] for of in facts)
    lost = {of["sink_words"] for of in facts}
    assert len(lost) == 1 and 0.5 * 135 < lost.pop() <= 135
    assert (run.comparisons["dropped_items"] == 0).all()
    assert set(run.results[run.results["metric"] == "sink_words"]["value"]) == {facts[0]["sink_words"]}
    said = limits(run.reading, [])
    assert any("attention sink" in line and "base, tuned-1 and tuned-2" in line for line in said)
