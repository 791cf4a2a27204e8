"""A study as a graph: names before anything runs, failures that cost only what depends on them, a limit of disk."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from small_study import study
from typer.testing import CliRunner

from vestige.cache import write_checked
from vestige.cli import app
from vestige.errors import ModelError, SpecError, VestigeError
from vestige.study import claims
from vestige.study.board import Board
from vestige.study.claims import claimed
from vestige.study.corpora import Given
from vestige.study.detach import detached
from vestige.study.engines.inline import Inline
from vestige.study.engines.local import PROCESS, Local, free_memory
from vestige.study.engines.settings import EngineSpec, make_engine
from vestige.study.estimate import estimate
from vestige.study.failures import Failure
from vestige.study.housekeeping import cache_lines, clean, damaged, in_use, kept
from vestige.study.plan import make_plan
from vestige.study.record import Record
from vestige.study.run import Study, steps_of, steps_until
from vestige.study.space import Space
from vestige.study.spec import make_spec
from vestige.study.status import Status, lines, read_status
from vestige.study.steps.extract import Extract
from vestige.study.steps.load import Load
from vestige.study.steps.step import restore


@pytest.fixture
def raw(place) -> dict:
    said = study(place)
    tune = {"of": "base", "task": "opinions/label", "recipe": {"epochs": 1, "rate": 1e-3, "batch": 16}}
    said["models"] = {"base": str(place / "base"), "tuned": {"finetune": tune, "runs": 2}}
    said["corpora"]["opinions"] = {"files": {"train": str(place / "opinions.tsv")}}
    said["analyses"] = [
        {"layer_probe": {"tasks": ["words/upos"], "seeds": 1}},
        {"similarity": {"tasks": ["words/upos"]}},
    ]
    return said


@pytest.fixture
def plan(raw, cache):
    return make_plan(make_spec(raw), Given(), cache)


class TestPlan:
    def test_nothing_is_written_and_names_do_not_depend_on_what_is_there(self, raw, plan, cache, tmp_path):
        assert not cache.exists()
        Study.from_dict(raw, tmp_path / "run", cache=cache).run()
        again = make_plan(make_spec(raw), Given(), cache)
        assert [*again.steps] == [*plan.steps]
        assert all(step.done for step in again.steps.values())

    def test_every_step_travels_as_text(self, plan):
        for step in plan.steps.values():
            again = restore(step.to_json())
            assert (again.to_json(), again.title) == (step.to_json(), step.title)

    @pytest.mark.parametrize(
        ("change", "kinds"),
        [
            ({"compute": {"threads": 2}}, {"analyse", "compare"}),
            ({"compute": {"model_threads": 1}}, {"tune", "load", "extract", "analyse", "compare"}),
            ({"compare": {"alpha": 0.01}}, {"compare"}),
            ({"engine": {"name": "local", "jobs": 2, "disk": "1 GB"}}, set()),
            ({"about": "something else"}, set()),
        ],
        ids=["threads", "model threads", "alpha", "engine", "about"],
    )
    def test_a_name_changes_with_what_goes_into_it_and_with_nothing_else(self, raw, plan, cache, change, kinds):
        other = make_plan(make_spec({**raw, **change}), Given(), cache)
        assert {step.kind for key, step in plan.steps.items() if key not in other.steps} == kinds

    def test_other_weights_have_another_name(self, raw, plan, cache, place, tmp_path):
        shutil.copytree(place / "base", tmp_path / "copy")
        raw["models"]["base"] = str(tmp_path / "copy")
        same = make_plan(make_spec(raw), Given(), cache)
        assert [*same.steps] == [*plan.steps], "a copy of a folder is the same model"
        weights = tmp_path / "copy" / "model.safetensors"
        content = bytearray(weights.read_bytes())
        content[-1] ^= 1
        weights.write_bytes(content)
        other = make_plan(make_spec(raw), Given(), cache)
        assert not {*other.steps} & {*plan.steps}

    def test_parts_of_a_study(self, plan):
        assert {plan.steps[key].kind for key in steps_until(plan, "extract")} == {"tune", "load", "extract"}
        assert {plan.steps[key].kind for key in steps_of(plan, ["similarity"])} == {"analyse"}
        with pytest.raises(SpecError, match="no step has to do with 'nothing'"):
            steps_of(plan, ["nothing"])
        with pytest.raises(SpecError, match="no kind of step is called 'reading'"):
            steps_until(plan, "reading")


class TestBoard:
    def test_a_failure_costs_what_depends_on_it_and_nothing_else(self, plan):
        board = Board(plan.steps)
        tune = plan.named.tunes["tuned", 0]
        board.fail(Failure(tune, "ModelError", "it diverged"))
        lost = {board.steps[key].title for key, state in board.states.items() if state == "lost"}
        assert "layer_probe of words/upos, model tuned" in lost
        assert "layer_probe of words/upos, model tuned, run 1" not in lost
        assert "layer_probe of words/upos, model base" not in lost
        assert {step.kind for step in board.of("lost")} == {"load", "extract", "analyse", "compare"}

    def test_steps_become_ready_when_their_inputs_are_done(self, plan):
        board = Board(plan.steps)
        seen = []
        while ready := [*board.ready()]:
            for step in ready:
                assert all(other in seen for other in step.inputs)
                board.states[step.key] = "done"
            seen += [step.key for step in ready]
        assert sorted(seen) == sorted(plan.steps) and not board.unfinished


def _representations(cache: Path) -> int:
    """Bytes of all hidden states in a cache."""
    return sum(each.size for each in kept(cache) if each.kind == "representations")


class TestDisk:
    def test_hidden_states_of_four_times_the_limit(self, raw, cache, tmp_path, monkeypatch):
        raw["models"]["tuned"]["runs"] = 8  # nine models; a model and its reference fit a quarter of that
        free = Study.from_dict(raw, tmp_path / "free", cache=tmp_path / "other").run()
        limit = _representations(tmp_path / "other") // 4
        study, seen, make = Study.from_dict(raw, tmp_path / "run", cache=cache), [], Extract.make

        def watched(step, *given):
            made = make(step, *given)
            seen.append(_representations(cache))
            return made

        monkeypatch.setattr(Extract, "make", watched)
        made = study.run(disk=limit)
        assert not made.failed
        for name in ("results.parquet", "comparisons.parquet"):
            assert (made.tables.folder / name).read_bytes() == (free.tables.folder / name).read_bytes()
        assert len(seen) >= 9 and max(seen) <= limit, "at every moment at which it could be exceeded"
        events = [event["event"] for event in Record(tmp_path / "run" / "log").events()]
        assert "dropped" in events

    def test_what_two_corpora_of_the_same_words_share_stays_while_one_of_them_needs_it(self, raw, cache, tmp_path):
        raw["corpora"]["again"] = raw["corpora"]["words"]
        raw["analyses"] = [
            {"layer_probe": {"tasks": ["words/upos"], "seeds": 1}},
            {"layer_probe": {"tasks": ["words/upos", "again/upos"], "seeds": 1, "pooling": "first"}},
        ]
        study = Study.from_dict(raw, tmp_path / "run", cache=cache)
        assert not study.run().failed
        space = Space.of(study.plan().steps, limit=10**9)
        words, again = (
            next(step for step in space.extracts.values() if step.about == {"base", name})
            for name in ("words", "again")
        )
        assert set(again.vectors) < set(words.vectors)
        used = space.used()
        assert space.drop([words.key]) == [words]
        assert again.there and not words.there, "the other corpus needs the hidden states of first tokens"
        assert 0 < space.used() < used, "what is shared counts once"
        assert space.drop([words.key, again.key]) and not again.there

    def test_what_does_not_fit_at_once_is_said(self, raw, cache, tmp_path):
        free = Study.from_dict(raw, tmp_path / "free", cache=tmp_path / "other")
        free.run()
        one = next(iter(free.plan().extracts.values())).size()
        made = Study.from_dict(raw, tmp_path / "run", cache=cache).run(disk=int(1.5 * one))
        assert {failure["analysis"] for failure in made.failed} == {"similarity"}, made.failed
        assert "hidden states" in made.failed[0]["problem"] and "at once" in made.failed[0]["problem"]
        with pytest.raises(VestigeError, match="may keep"):
            Study.from_dict(raw, tmp_path / "none", cache=tmp_path / "third").run(disk=one // 2)


def test_a_damaged_input_is_made_again_in_the_same_run(raw, cache, tmp_path):
    study = Study.from_dict(raw, tmp_path / "run", cache=cache)
    first = {p.name: p.read_bytes() for p in study.run().tables.folder.glob("*.parquet")}
    shutil.rmtree(cache / "cells")
    shutil.rmtree(cache / "compared")
    layer = next((cache / "representations").glob("*/*/layer01.npy"))
    content = bytearray(layer.read_bytes())
    content[-5] ^= 64
    layer.write_bytes(content)
    again = study.run()
    assert {p.name: p.read_bytes() for p in again.tables.folder.glob("*.parquet")} == first
    assert "retried" in [event["event"] for event in Record(tmp_path / "run" / "log").events()]
    assert not [*damaged(cache)]


def test_an_error_while_an_input_was_removed_is_its_removal(raw, cache, tmp_path, monkeypatch):
    """A model folder that vanishes while it is read has no tokenizer, for example."""
    make, lost = Load.make, []

    def lose_and_make(step, memory):
        if step.origin.model == "tuned" and not lost:
            lost.append(step)
            shutil.rmtree(cache / "models")
            raise ModelError("no tokenizer in it", fix="save it there")
        make(step, memory)

    monkeypatch.setattr(Load, "make", lose_and_make)
    done = Study.from_dict(raw, tmp_path / "run", cache=cache).run(name="inline")
    assert lost and not done.failed


def test_words_and_labels_that_are_damaged_are_written_again_in_the_same_run(raw, cache, tmp_path, monkeypatch):
    make, lost = Extract.make, []

    def make_and_damage(step, memory):
        make(step, memory)
        for path in (cache / "tasks").iterdir() if not lost else ():
            path.write_bytes(path.read_bytes()[:-9])
            lost.append(path)

    monkeypatch.setattr(Extract, "make", make_and_damage)
    done = Study.from_dict(raw, tmp_path / "run", cache=cache).run(name="inline")
    assert lost and not done.failed
    assert "retried" in [event["event"] for event in Record(tmp_path / "run" / "log").events()]


def test_other_weights_than_those_of_a_first_run_are_reported(raw, cache, tmp_path, caplog):
    study = Study.from_dict(raw, tmp_path / "run", cache=cache)
    study.run()
    tune = study.plan().named.tunes["tuned", 0]
    shutil.rmtree(tune.folder)
    study.run()
    assert "is not what it was" not in caplog.text, "the same weights, to the bit"
    shutil.rmtree(tune.folder)
    record = cache / "records" / f"{tune.key}.json"
    sums = json.loads(record.read_bytes().partition(b"\n")[2])
    write_checked(record, json.dumps(dict.fromkeys(sums, "other")).encode())
    study.run()
    assert f"{tune.title} was made again and is not what it was" in caplog.text


def test_two_drivers_at_once_make_every_step_once(raw, cache, tmp_path):
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(raw))
    command = [sys.executable, "-m", "vestige.cli", "run", "study.yaml", "--jobs", "2", "--cache", str(cache), "--out"]
    drivers = [subprocess.Popen([*command, name], cwd=tmp_path, stderr=subprocess.PIPE) for name in ("one", "two")]
    for driver in drivers:
        _, said = driver.communicate(timeout=300)
        assert driver.returncode == 0, said
    events = [event for name in ("one", "two") for event in Record(tmp_path / name / "log").events()]
    made = [event["key"] for event in events if event["event"] == "done" and event["made"]]
    assert sorted(made) == sorted(make_plan(make_spec(raw), Given(), cache).steps)
    for table in ("results.parquet", "comparisons.parquet"):
        assert (tmp_path / "one" / table).read_bytes() == (tmp_path / "two" / table).read_bytes()


class TestMemory:
    def test_steps_run_together_as_far_as_their_memory_goes(self, plan, tmp_path):
        gigabyte = 10**9
        tune, other = plan.named.tunes.values()
        room = Local(4, tmp_path, cores=8, memory=2 * (gigabyte + PROCESS), needs=lambda step: gigabyte)
        less = Local(4, tmp_path, cores=8, memory=2 * gigabyte, needs=lambda step: gigabyte)
        for engine in (room, less):
            assert engine.has_room(tune), "a step that wants more than there is runs alone"
            engine._busy = {object(): tune}
        assert room.has_room(other) and not less.has_room(other)
        room._busy |= {object(): other}
        assert not room.has_room(tune)

    def test_what_is_said_goes_before_what_is_estimated(self, plan, tmp_path):
        tune = next(iter(plan.named.tunes.values()))
        for memory, needed in ((None, 5), ("1 GB", 10**9), ({"tune": "2 GB"}, 2 * 10**9), ({"load": "2 GB"}, 5)):
            settings = EngineSpec(name="local", jobs=2, memory=memory, together="8 GB")
            engine = make_engine(settings, Record(tmp_path), {}, {tune.key: 5})
            assert (engine._needs(tune), engine.memory) == (needed, 8 * 10**9)

    @pytest.mark.skipif(not os.path.exists("/proc/meminfo"), reason="what is free is read in /proc")
    def test_by_default_it_is_a_share_of_what_is_free(self, tmp_path):
        assert 0 < free_memory(0.5) < 0.6 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class TestStatus:
    def test_a_finished_run(self, raw, cache, tmp_path):
        Study.from_dict(raw, tmp_path / "run", cache=cache).run()
        status, record = read_status(tmp_path / "run")
        assert status.left == 0 and status.outcome == "all done" and not status.running
        assert any("fine-tuning runs       2 of 2" in line for line in lines(status, record))
        said = CliRunner().invoke(app, ["status", str(tmp_path / "run")])
        assert said.exit_code == 0 and "all done" in said.output

    def test_a_run_whose_driver_is_gone(self):
        status = Status()
        status.add(
            {"event": "planned", "at": 1.0, "total": {"load": 1}, "cached": {}, "owner": {"host": "x", "pid": 1}}
        )
        status.add({"event": "started", "at": 2.0, "key": "k", "kind": "load", "title": "model base"})
        assert status.alive is None and [*status.running] == ["k"]

    def test_of_a_driver_on_another_machine_it_says_how_old_the_last_sign_of_life_is(self, tmp_path):
        status, record = Status(), Record(tmp_path)
        owner = {"host": "elsewhere", "pid": 7}
        status.add({"event": "planned", "at": 100.0, "total": {"tune": 1}, "cached": {}, "owner": owner})
        status.add({"event": "started", "at": 160.0, "key": "k", "kind": "tune", "title": "fine-tuning"})
        found = lines(status, record, now=220.0)[-1]
        assert found.startswith(
            "running for 0:02:00; its driver (process 7 of elsewhere) was last heard of 0:01:00 ago"
        )
        assert lines(status, record, now=290.0)[-1].startswith(
            "stopped, as it seems: its driver (process 7 of elsewhere)"
        )
        with claimed(record.sign()):  # as the driver holds it
            os.utime(record.sign(), (280.0, 280.0))
            assert lines(status, record, now=290.0)[-1].startswith("running for 0:03:10")
        assert lines(status, record, now=290.0)[-1].startswith("stopped, as it seems")

    def test_a_driver_gives_a_sign_of_life_all_the_time(self, raw, cache, tmp_path, monkeypatch):
        """Also while one long step runs, of which it hears nothing; and none when it has ended."""
        monkeypatch.setattr(claims, "BEAT", 0.02)
        seen = []

        class Slow(Inline):
            def wait(self, seconds):
                before = time.monotonic()
                while self._next and time.monotonic() < before + 0.2:
                    seen.append(json.loads(record.sign().read_text())["beat"])
                return super().wait(seconds)

        record = Record(tmp_path / "run" / "log")
        monkeypatch.setattr("vestige.study.run.make_engine", lambda *_: Slow({}))
        Study.from_dict(raw, tmp_path / "run", cache=cache).run()
        assert len({*seen}) > 5
        assert not record.sign().exists()

    def test_a_detached_run_is_known_before_it_has_begun(self):
        detached = {"event": "detached", "where": "job 7 of SLURM", "output": "driver.log"}
        planned = {"event": "planned", "total": {"load": 1}, "cached": {}, "owner": {"host": "elsewhere", "pid": 7}}
        status = Status()
        for event in ({**planned, "at": 10.0}, {"event": "ended", "at": 20.0, "outcome": "all done"}):
            status.add(event)
        status.add({**detached, "at": 50.0})
        (said,) = lines(status, Record(Path("none")), now=80.0)
        assert said == "not begun yet, 0:00:30 after it was handed to job 7 of SLURM (its output: driver.log)"
        status.add({**planned, "at": 60.0})
        status.add({**detached, "at": 50.0})  # written after the driver had begun
        assert lines(status, Record(Path("none")), now=80.0)[-1].startswith("running for 0:00:20")

    def test_a_detached_run_is_followed_from_the_start_to_its_end(self, raw, cache, tmp_path):
        (tmp_path / "study.yaml").write_text(yaml.safe_dump(raw))
        command = [sys.executable, "-m", "vestige.cli", "run", "study.yaml", "--out", "run", "--cache", str(cache)]
        said = subprocess.run([*command, "--detach"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        assert re.match(r"process \d+, its output in .*driver.log; follow it: vestige status ", said)
        followed = CliRunner().invoke(app, ["status", str(tmp_path / "run"), "--watch"])
        assert followed.exit_code == 0 and "all done" in followed.output.splitlines()[-1], followed.output

    def test_a_detached_driver_that_is_gone_before_it_began_is_said_to_be_gone(self, tmp_path):
        (tmp_path / "study.yaml").write_text("models: none")
        said = detached(tmp_path / "run", ["run", str(tmp_path / "study.yaml")], EngineSpec())
        os.waitpid(int(said.split()[1].strip(",")), 0)
        status, record = read_status(tmp_path / "run")
        assert "is gone" in lines(status, record)[-1] and "driver.log" in lines(status, record)[-1]

    def test_no_run(self, tmp_path):
        said = CliRunner().invoke(app, ["status", str(tmp_path)])
        assert said.exit_code != 0

    def test_half_a_line_is_left_for_the_next_time(self, tmp_path):
        record = Record(tmp_path)
        record.note("planned", total={}, cached={})
        with open(tmp_path / "events.jsonl", "a") as stream:
            stream.write('{"event": "sta')
        assert [event["event"] for event in record.events()] == ["planned"]


class TestPlanCommand:
    def test_as_a_table_and_as_json(self, raw, cache, tmp_path):
        (tmp_path / "study.yaml").write_text(yaml.safe_dump(raw))
        command = ["run", str(tmp_path / "study.yaml"), "--plan", "--cache", str(cache)]
        said = CliRunner().invoke(app, command)
        assert said.exit_code == 0 and "an estimate" in said.output and "longest chain" in said.output
        found = json.loads(CliRunner().invoke(app, [*command, "--json"]).output)
        assert found["kinds"]["tune"]["to_do"] == 2 and found["seconds"] > 0
        assert {step["key"] for step in found["steps"]} == {*make_plan(make_spec(raw), Given(), cache).steps}

    def test_what_was_seen_is_what_is_estimated_from(self, raw, cache, tmp_path):
        study = Study.from_dict(raw, tmp_path / "run", cache=cache)
        study.run()
        shutil.rmtree(cache / "cells")
        found = estimate(study, EngineSpec(jobs=2))
        row = found["kinds"]["analyse"]
        assert row["to_do"] == row["timed"] > 0 and found["kinds"]["tune"]["to_do"] == 0

    def test_until_and_only(self, raw, cache, tmp_path):
        (tmp_path / "study.yaml").write_text(yaml.safe_dump(raw))
        command = [
            "run",
            str(tmp_path / "study.yaml"),
            "--cache",
            str(cache),
            "--out",
            str(tmp_path / "run"),
            "--engine",
            "inline",
        ]
        said = CliRunner().invoke(app, [*command, "--only", "base", "--until", "extract"])
        assert said.exit_code == 0 and "steps of the study are left" in said.output
        assert not (cache / "models").exists() and len([*(cache / "read").iterdir()]) == 1
        assert not (tmp_path / "run" / "results.parquet").exists()


class TestCache:
    def test_what_is_there_and_whose(self, raw, cache, tmp_path):
        Study.from_dict(raw, tmp_path / "my-run", cache=cache).run()
        said = "\n".join(cache_lines(cache, studies=True))
        assert "fine-tuned models" in said and "my-run" in said

    def test_damage_is_found(self, raw, cache, tmp_path):
        Study.from_dict(raw, tmp_path / "run", cache=cache).run()
        assert CliRunner().invoke(app, ["verify", "--cache", str(cache)]).exit_code == 0
        cell = next((cache / "cells").glob("*/rows.parquet"))
        cell.write_bytes(cell.read_bytes()[:-1])
        said = CliRunner().invoke(app, ["verify", "--cache", str(cache)])
        assert said.exit_code == 1 and str(cell.parent) in said.output
        for kind in ("tasks", "records"):  # files that stand alone, with their checksum in the first line
            file = next((cache / kind).iterdir())
            file.write_bytes(file.read_bytes()[:-2] + b"?\n")
            assert f"{file} is damaged" in [*damaged(cache)]

    def test_clean_by_kind_and_size_and_never_what_runs(self, raw, cache, tmp_path):
        study = Study.from_dict(raw, tmp_path / "run", cache=cache)
        study.run()
        with in_use(cache, "run", study.plan()):
            (said, left) = clean(cache, ["representations"], None, None, sure=True)
            assert said.startswith("0 pieces") and "a running study uses them" in left
        (said,) = clean(cache, ["representations"], None, None, sure=False)
        assert "would be removed" in said and (cache / "representations").exists()
        [*clean(cache, ["representations"], None, None, sure=True)]
        assert not [each for each in kept(cache) if each.kind == "representations"]
        [*clean(cache, [], None, "1 KB", sure=True)]
        assert sum(each.size for each in kept(cache)) <= 1000
        assert study.run().results is not None, "what was removed is made again"

    @pytest.mark.parametrize("wrong", [["--kind", "nothing"], ["--down-to", "much"], []])
    def test_mistakes(self, cache, wrong):
        said = CliRunner().invoke(app, ["clean", "--cache", str(cache), *wrong])
        assert said.exit_code != 0


@pytest.mark.parametrize(
    "engine",
    [{"name": "cloud"}, {"jobs": 0}, {"disk": "many"}, {"gpus": -1}, {"minutes": {"analysis": 3}}, {"colour": "red"}],
)
def test_settings_of_engines_are_checked(raw, engine):
    with pytest.raises(SpecError, match="engine"):
        make_spec({**raw, "engine": engine})


@pytest.mark.parametrize(("gpus", "given"), [(None, 1), (0.25, 0.25), ({"tune": 2}, 1), ({"load": 0.5}, 0.5)], ids=str)
def test_a_step_on_a_gpu_gets_one_unless_another_share_is_asked_for(raw, cache, gpus, given):
    """A study for a device that this machine lacks is planned all the same: other machines run it."""
    settings = EngineSpec(name="slurm", gpus=gpus)
    on_gpu = make_plan(make_spec({**raw, "compute": {"device": "cuda"}}), Given(), cache)
    here = make_plan(make_spec(raw), Given(), cache)
    assert settings.gpus_of(on_gpu.loads["base", 0]) == given
    assert settings.gpus_of(here.loads["base", 0]) == 0
