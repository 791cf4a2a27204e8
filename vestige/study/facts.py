"""What was found while a study ran: its models as they were loaded, words that were lost, tokens that are unknown."""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from vestige.cache import reading
from vestige.digest import digest_json
from vestige.finetune.naming import LOG
from vestige.study.plan import Plan
from vestige.study.spec import StudySpec
from vestige.study.steps.origin import read_facts


@dataclass
class Facts:
    """For study.lock.json; of what did not finish, nothing."""

    models: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By model name, a description per run."""
    notes: list[str] = field(default_factory=list)
    """Words lost, depths that differ."""
    tokens: list[dict[str, Any]] = field(default_factory=list)
    """Of every model and corpus: unknown tokens, sinks left out, whether it is cut as by the model's reference."""


def collect_facts(spec: StudySpec, plan: Plan, failed: Collection[str] = ()) -> Facts:
    """Read what the steps of a plan have left, but for those that failed, which are named by their keys."""
    found = Facts()
    for (name, run), load in plan.loads.items():
        if load.key not in failed:
            found.models.setdefault(name, []).append(_model(plan, name, run))
    for name, run in plan.named.origins if not plan.loads else ():  # weights were read from files, nothing was loaded
        if (name, run) not in plan.named.tunes or plan.named.tunes[name, run].key not in failed:
            found.models.setdefault(name, []).append(_model(plan, name, run))
    read = {place: step.facts() for place, step in plan.extracts.items() if step.key not in failed}
    for (name, run, corpus), facts in read.items():
        if run == 0:
            found.notes += _losses(name, corpus, facts)
            reference = read.get((spec.reference_of(name) or "", 0, corpus))
            cut = {digest for each in (facts, reference) if (digest := _tokens(each)) is not None}
            unlike = spec.reference_of(name) if len(cut) > 1 else None
            found.tokens.append({"model": name, "corpus": corpus, **facts["tokens"], "cut_unlike": unlike})
    found.notes += _depths(spec, found)
    return found


def _model(plan: Plan, name: str, run: int) -> dict[str, Any]:
    load, facts = plan.loads.get((name, run)), dict[str, Any]()
    if load is not None:
        facts = read_facts(load.root, load.key)
        facts.pop("leaves_out_first")
    key = plan.named.origins[name, run].key if load is None else load.key
    about = {**facts, "name": name, "key": key, **plan.named.about[name]}
    tune = plan.named.tunes.get((name, run))
    if tune is not None:
        with reading(tune.folder):
            log = json.loads((tune.folder / LOG).read_text(encoding="utf-8"))
        about |= {"tune_seed": run, "recipe": tune.recipe, "curve": log["curve"], "making": tune.key}
    return about


def _tokens(facts: dict[str, Any] | None) -> str | None:
    """Hash of the tokens that a model saw; None where no hidden states were asked for."""
    return None if not facts or not facts["splits"] else digest_json([s["tokens"] for s in facts["splits"].values()])


def _losses(model: str, corpus: str, facts: dict[str, Any]) -> Iterator[str]:
    """Words that the model could not be shown, or made nothing of."""
    for split, lost in facts["splits"].items():
        if lost["truncated_words"]:
            yield (
                f"{model} on {corpus}/{split}: {lost['truncated_words']} of {lost['words']} words in "
                f"{lost['truncated_sentences']} sentences are past the model's limit and left out"
            )
        if lost["vanished_words"]:
            yield (
                f"{model} on {corpus}/{split}: the tokenizer makes nothing of {lost['vanished_words']} words "
                "(policy: see compute.on_vanished)"
            )


def _depths(spec: StudySpec, found: Facts) -> Iterator[str]:
    """Pairs of models that do not have the same depth."""
    for name in spec.models:
        reference = spec.reference_of(name)
        if any("layers" not in found.models.get(each or "", [{}])[0] for each in (reference, name)):
            continue
        deep, shallow = (found.models[each or ""][0]["layers"] - 1 for each in (name, reference))
        if deep != shallow:
            yield (
                f"{name} has {deep} blocks, {reference} has {shallow}: layers are compared by number, as far as "
                "both have them"
            )
