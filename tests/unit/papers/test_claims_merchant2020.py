"""Every statement of Merchant et al. 2020 on planted tables: true, false, and not to be told."""

from functools import cache

import pandas as pd
import planted
import pytest

from vestige.papers.merchant2020.claims import EDGES, STATEMENTS
from vestige.papers.merchant2020_depth.claims import STATEMENTS as OF_DEPTH
from vestige.papers.merchant2020_depth.claims import scores
from vestige.papers.verdicts import Estimate

TUNED = {"mnli": "mnli/mnli", "squad": "squad/answer", "parsing": "ewt/head"}
PLACES = {name: candidates[1].split("/") for name, candidates in EDGES.items() if len(candidates) > 1}


@cache
def side(true: bool, half: float | None = 0.002):
    """As the paper has it, or the other way round; `half` of every interval, None: differences without one."""
    sign, records, found = (1 if true else -1), [], []
    wide = half or 0.002
    for name, (corpus, task) in PLACES.items():
        where = {"analysis": "edge_probe", "corpus": corpus, "task": task, "metric": "f1_micro"}
        for model in ("base", "random twin", *TUNED):
            for given in ("mix", "top", "lexical"):
                low = 0.3 if model == "random twin" or given == "lexical" else 0.0
                records.append({**where, "model": model, "input": given, "value": 0.9 - low})
        for model in TUNED:
            for given in ("mix", "top"):
                move = 0.02 * sign if model == "parsing" and name == "Constituents" else -0.02 * sign
                found.append(planted.change(move if true else 20 * move, half, model=model, input=given, **where))
    tree, text = {"analysis": "structural_probe", "metric": "dspr"}, {"analysis": "similarity", "metric": "rsa"}
    for layer in range(7):
        records.append({**tree, "model": "base", "corpus": "ewt", "task": "head", "layer": layer, "value": 0.8})
        for model in TUNED:
            deep = {"parsing": 0.3, "squad": 0.2, "mnli": 0.1} if true else {"parsing": 0.1, "squad": 0.2, "mnli": 0.3}
            others = (-0.05 if layer == 6 else 0.0) if true else 0.3
            move = 0.2 * sign if model == "parsing" else others
            found.append(planted.change(move, half, model=model, layer=layer, corpus="ewt", task="head", **tree))
            alike = 1 - deep[model] * layer / 6 - 0.3 * (layer == 6)
            alike = alike if true else (0.5 if layer == 0 else 0.6 + 0.05 * layer - deep[model])
            for corpus, task in (("wikitext2", "text"), ("mnli", "mnli"), ("squad", "answer")):
                records.append({**text, "model": model, "corpus": corpus, "task": task, "layer": layer, "value": alike,
                                "low": alike - wide, "high": alike + wide})  # fmt: skip
            for task in ("xpos", "deprel"):
                saved = (0.2 if model == "parsing" else 0.0) if true else (-0.2 if model == "parsing" else 0.2)
                found.append(planted.change(saved, half, model=model, layer=layer, corpus="gum", task=task,
                                            analysis="description_length", metric="saved"))  # fmt: skip
    for model in ("mnli", "squad"):
        found.append(planted.change(-0.1 * sign, half, model=model, layer=6, corpus=model, other_corpus="wikitext2",
                                    in_domain=0.5, out_of_domain=0.6, **text))  # fmt: skip
    records.append({"analysis": "description_length", "model": "base", "corpus": "gum", "task": "xpos", "value": 1.0})
    return planted.observed(planted.rows(records), planted.changes(found), tuned=TUNED)


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda one: one.name)
def test_a_statement_agrees_differs_or_cannot_be_told(statement):
    assert statement.test(side(True)).verdict == "agrees"
    assert statement.test(side(False)).verdict == "differs"
    assert statement.test(side(True, half=3.0)).verdict == "cannot be told"


@pytest.mark.parametrize(
    "statement", [one for one in STATEMENTS if "similarity" not in one.needs], ids=lambda s: s.name
)
def test_differences_without_intervals_decide_nothing(statement):
    """However large: absence of an interval is no agreement."""
    assert statement.test(side(True, half=None)).verdict == "cannot be told"


TASKS = {"MNLI": ("mnli", "mnli", "accuracy"), "SQuAD": ("squad", "answer", "f1"), "Parsing": ("ewt", "head", "las")}


@cache
def depths(true: bool, spread: float = 0.002, runs: int = 3):
    """Scores by frozen blocks and by blocks kept, of a model of six."""
    records = []
    for title, (corpus, task, metric) in TASKS.items():
        parsing = title == "Parsing"
        for analysis, places in (("freezing", range(-1, 7)), ("truncation", range(1, 7))):
            where = {"analysis": analysis, "corpus": corpus, "task": task, "model": "base"}
            for x in places:
                if analysis == "freezing":
                    deep = parsing if true else not parsing
                    score = 0.8 - (0.06 if deep else 0.001) * (x + 1) - 0.3 * (x == 6)
                else:
                    needs = parsing if true else not parsing
                    score = 0.8 - (0.1 if needs else 0.001) * (6 - x)
                for seed, value in enumerate(planted.around(score, spread, runs)):
                    records.append({**where, "metric": metric, "x": x, "probe_seed": seed, "value": value,
                                    "low": value - 0.02, "high": value + 0.02})  # fmt: skip
            records.append({**where, "metric": "majority", "subset": metric, "value": 0.3})
    return planted.observed(planted.rows(records))


@pytest.mark.parametrize("statement", OF_DEPTH, ids=lambda one: one.name)
def test_a_statement_on_depth_agrees_differs_or_cannot_be_told(statement):
    assert statement.test(depths(True)).verdict == "agrees"
    assert statement.test(depths(False)).verdict == "differs"
    assert statement.test(depths(True, spread=2.0)).verdict == "cannot be told"


def test_a_task_is_scored_by_what_it_is_tuned_by_and_held_against_the_constant_answer_of_that_measure():
    """Opinions have accuracy, Matthews correlation and F1, of which a constant answer has another each."""
    records = []
    for metric, value, always in (("accuracy", 0.8, 0.55), ("matthews", 0.6, 0.0), ("f1", 0.7, 0.142)):
        where = {"analysis": "freezing", "corpus": "opinions", "task": "opinion", "model": "base", "metric": metric}
        records += [{**where, "x": x, "value": value, "low": value, "high": value} for x in (-1, 6)]
        records.append({**where, "metric": "majority", "subset": metric, "value": always})
    found = scores(planted.observed(planted.rows(records)), "freezing")
    assert found["value"].tolist() == [0.8, 0.8] and found["majority"].tolist() == [0.55, 0.55]


def test_a_failed_probe_gives_no_interval():
    row = pd.Series({"difference": -0.1, "low": -0.2, "high": -0.05, "p": float("nan"), "runs": 1})
    assert Estimate.of_row(pd.concat([row, pd.Series({"verdict": "lower"})])).known
    assert not Estimate.of_row(pd.concat([row, pd.Series({"verdict": "failed probe"})])).known


@pytest.mark.parametrize("statement", OF_DEPTH, ids=lambda one: one.name)
def test_models_that_were_trained_once_decide_nothing_about_depth(statement):
    claim = statement.test(depths(True, runs=1))
    assert claim.parts and claim.verdict == "cannot be told" and "trained once" in claim.note
