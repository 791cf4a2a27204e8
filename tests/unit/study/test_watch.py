"""Probing while training: the tables of a study, and a training that is not disturbed."""

import pytest
import tiny
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

from vestige.errors import SpecError
from vestige.study.watch import START, Watch, WatchCallback

ANALYSES = [
    {"layer_probe": {"control": False, "l2": 1e-3}},
    {"similarity": {"n": 60, "groups": 0, "measures": ["rsa"]}},
]
OPTIONS = {"analyses": ANALYSES, "limit": 12, "every": 2}


def training(model, watch=None, steps=4):
    """A plain loop of noisy steps; the loss of each."""
    torch.manual_seed(3)
    model.train()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    ids = torch.randint(5, 100, (6, 9), generator=torch.Generator().manual_seed(1))
    losses = []
    for step in range(steps + 1):
        if watch is not None:
            watch.step(model, step)
        if step < steps:
            loss = model(input_ids=ids, labels=torch.arange(6) % 2).loss
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(float(loss.detach()))
    return losses


def classifier():
    torch.manual_seed(0)
    return tiny.model("bert", classes=2)


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    folder = tmp_path_factory.mktemp("watch")
    watch = Watch(
        tiny.tokenizer("bert"), "treebank", ["upos"], folder=folder / "run", cache=folder / "cache", **OPTIONS
    )
    return training(classifier(), watch), watch.finish()


def test_every_step_asked_for_is_a_model_of_the_run(watched):
    results = watched[1].results
    steps = results.drop_duplicates("model").set_index("model")["step"].to_dict()
    assert steps == {START: 0, "step 2": 2, "step 4": 4}
    assert {"layer_probe", "similarity"} == set(results["analysis"])


def test_steps_are_compared_with_the_start(watched):
    assert set(watched[1].comparisons["model"]) == {"step 2", "step 4"}
    assert set(watched[1].comparisons["reference"]) == {START}
    rsa = watched[1].results[watched[1].results["metric"] == "rsa"]
    assert set(rsa["model"]) == {"step 2", "step 4"}
    assert (rsa["value"] < 1).all()


def test_training_goes_on_as_if_nothing_had_happened(watched):
    assert watched[0] == training(classifier())


def test_modules_keep_their_modes(tmp_path):
    model = classifier()
    model.train()
    model.bert.embeddings.eval()
    watch = Watch(tiny.tokenizer("bert"), "treebank", ["upos"], folder=tmp_path, cache=tmp_path / "c", **OPTIONS)
    watch.step(model, 0)
    assert model.training
    assert model.bert.encoder.training
    assert not model.bert.embeddings.training


def test_the_trainer_calls_back(tmp_path):
    model, tokenizer = classifier(), tiny.tokenizer("bert")
    examples = [{"input_ids": [2, 7 + i, 9, 3], "labels": i % 2} for i in range(8)]
    callback = WatchCallback(tokenizer, "treebank", ["upos"], folder=tmp_path / "run", cache=tmp_path / "c", **OPTIONS)
    settings = TrainingArguments(
        str(tmp_path / "out"), max_steps=3, per_device_train_batch_size=4, report_to=[], use_cpu=True,
        save_strategy="no", disable_tqdm=True, logging_strategy="no",
    )  # fmt: skip
    Trainer(model, settings, train_dataset=examples, callbacks=[callback]).train()
    assert callback.run is not None
    assert set(callback.run.results["model"]) == {START, "step 2", "step 3"}


class Recorder(TrainerCallback):
    """A tracker, as Trainer's integrations are: a callback that is told what the trainer logs."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, dict]] = []

    def on_log(self, args, state, control, logs=None, **_):
        self.seen.append((state.global_step, dict(logs)))


def attached(folder, *trackers, **settings):
    """A training that is watched, and that reports to these trackers."""
    examples = [{"input_ids": [2, 7 + i, 9, 3], "labels": i % 2} for i in range(8)]
    settings = TrainingArguments(
        str(folder / "out"), max_steps=3, per_device_train_batch_size=4, use_cpu=True, save_strategy="no",
        disable_tqdm=True, logging_strategy="no", **{"report_to": [], **settings},
    )  # fmt: skip
    trainer = Trainer(classifier(), settings, train_dataset=examples, callbacks=list(trackers))
    options = {**OPTIONS, "folder": folder / "run", "cache": folder / "c"}
    watch = WatchCallback(tiny.tokenizer("bert"), "treebank", ["upos"], **options).attach(trainer)
    trainer.train()
    return trainer, watch


def test_what_is_measured_is_logged_by_the_trainer_itself(tmp_path):
    recorder = Recorder()
    trainer, watch = attached(tmp_path, recorder)
    ours = {step: logs for step, logs in recorder.seen if any(name.startswith("vestige/") for name in logs)}
    assert list(ours) == [0, 2, 3]
    results = watch.run.results
    of_step = results[(results["model"] == "step 2") & (results["metric"] == "accuracy") & (results["layer"] == 1)]
    assert ours[2]["vestige/layer_probe/upos/accuracy/layer_01"] == of_step["value"].mean()
    assert any(name.startswith("vestige/similarity/") for name in ours[3])
    assert [one["step"] for one in trainer.state.log_history if any("vestige/" in name for name in one)] == [0, 2, 3]


def test_attaching_twice_measures_once_and_no_tracker_is_enabled(tmp_path):
    trainer, watch = attached(tmp_path)
    watch.attach(trainer)
    names = [type(one).__name__ for one in trainer.callback_handler.callbacks]
    assert names.count("WatchCallback") == 1
    assert set(names) == {"DefaultFlowCallback", "PrinterCallback", "WatchCallback"}


def test_tensorboard_receives_it(tmp_path, monkeypatch):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "logs"))
    attached(tmp_path, report_to=["tensorboard"])
    (folder,) = {file.parent for file in tmp_path.rglob("events.out.tfevents.*")}
    found = events.EventAccumulator(str(folder))
    found.Reload()
    curve = found.Scalars("train/vestige/layer_probe/upos/accuracy/layer_01")
    assert [point.step for point in curve] == [0, 2, 3] and all(0 < point.value < 1 for point in curve)


def test_mistakes():
    with pytest.raises(SpecError, match="every 0 steps"):
        Watch(tiny.tokenizer("bert"), "treebank", ["upos"], every=0)
    with pytest.raises(SpecError, match="nothing was measured"):
        Watch(tiny.tokenizer("bert"), "treebank", ["upos"]).finish()
