"""Items that lm-evaluation-harness itself logged: its files are read, and its means are ours."""

import json

import pytest
import tiny_lm
from tiny import tokenizer

from vestige.comparison.items import compare_items

pytest.importorskip("lm_eval", reason="lm-eval is missing: pip install lm-eval")
pytest.importorskip("sacrebleu", reason="lm-eval imports it")

TASK = """
task: agreement
dataset_path: json
dataset_kwargs: {{data_files: {{test: "{data}"}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{start}}}}"
doc_to_choice: ["{{{{right}}}}", "{{{{wrong}}}}"]
doc_to_target: 0
metric_list:
  - metric: acc
  - metric: acc_norm
"""
WORDS = ("dog", "fox", "quick", "lazy", "the", "over")


def choice(number: int) -> dict[str, str]:
    start, right, wrong = (WORDS[number % 6], WORDS[number % 5], WORDS[(number * 7 + 2) % 6])
    return {"start": f"the {start}", "right": right, "wrong": f"{wrong} the"}


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """Two tiny decoders on forty made-up choices, through lm-eval's own evaluator and writer; its means."""
    from lm_eval.evaluator import simple_evaluate
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    folder = tmp_path_factory.mktemp("lm_eval")
    (folder / "data.jsonl").write_text("".join(json.dumps(choice(number)) + "\n" for number in range(40)))
    (folder / "tasks").mkdir()
    (folder / "tasks" / "agreement.yaml").write_text(TASK.format(data=folder / "data.jsonl"))
    tasks = TaskManager(include_path=str(folder / "tasks"), include_defaults=False)
    means = {}
    for name, seed in (("base", 0), ("tuned", 1)):
        model = HFLM(pretrained=tiny_lm.whole("gpt2", seed), tokenizer=tokenizer("gpt2"), batch_size=8, device="cpu")
        found = simple_evaluate(model, tasks=["agreement"], task_manager=tasks, bootstrap_iters=0, log_samples=True)
        tracker = EvaluationTracker(output_path=str(folder / name))
        tracker.general_config_tracker.model_name_sanitized = name
        tracker.save_results_aggregated(results=dict(found), samples=found["samples"])
        tracker.save_results_samples("agreement", found["samples"]["agreement"])
        means[name] = found["results"]["agreement"]
    return folder, means


def test_its_files_are_read_and_its_means_are_ours(logged):
    folder, means = logged
    table = compare_items(folder / "base", folder / "tuned").set_index("metric")
    assert set(table.index) == {"acc", "acc_norm"} and set(table["task"]) == {"agreement"}
    assert set(table["items"]) == {40} and not table["dropped_items"].any() and not table["other_prompts"].any()
    for metric in ("acc", "acc_norm"):
        for side in ("base", "tuned"):
            assert table.loc[metric, side] == pytest.approx(means[side][f"{metric},none"])
    assert table.attrs["notes"] == []


def test_a_model_beside_itself_is_unchanged(logged):
    table = compare_items(logged[0] / "base", logged[0] / "base")
    assert set(table["verdict"]) == {"unchanged"} and not table["difference"].any()
