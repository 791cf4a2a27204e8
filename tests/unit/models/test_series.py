"""Checkpoints of a run and revisions of a hub model, in the order of their steps."""

import pytest
import tiny

from vestige.errors import ModelError
from vestige.models.files.load import load_model
from vestige.models.files.series import Checkpoints, find_checkpoints

STEPS = (5, 10, 100)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The output folder of a training run, with what else lies in one."""
    folder = tmp_path_factory.mktemp("run")
    for step in STEPS:
        tiny.save("bert", folder / f"checkpoint-{step}", layers=1, seed=step)
    for other in ("checkpoint-best", "checkpoint-", "old-checkpoint-7", "checkpoint-10-copy"):
        (folder / other).mkdir()
    (folder / "checkpoint-3").write_text("a file")
    return folder


class TestFolders:
    def test_steps_are_sorted_as_numbers(self, run):
        found = find_checkpoints(run)
        assert found.steps == list(STEPS)
        assert found.places == {step: (str(run / f"checkpoint-{step}"), None) for step in STEPS}

    def test_a_step_is_loaded_under_its_own_name(self, run):
        found = find_checkpoints(str(run))
        model = found.load(10)
        assert model.name == f"{run}@10"
        assert model.fingerprint == load_model(run / "checkpoint-10").fingerprint
        assert found.load(10, name="middle").name == "middle"
        assert found.load(10, final_norm="pre").fingerprint != model.fingerprint

    def test_all_steps_come_in_order(self, run):
        loaded = list(find_checkpoints(run))
        assert [step for step, _ in loaded] == list(STEPS)
        expected = [load_model(run / f"checkpoint-{step}").fingerprint for step in STEPS]
        assert [model.fingerprint for _, model in loaded] == expected
        assert len(set(expected)) == 3

    def test_a_step_that_is_not_there(self, run):
        with pytest.raises(ModelError, match="has no step 7") as raised:
            find_checkpoints(run).load(7)
        assert "5, 10, 100" in raised.value.fix

    @pytest.mark.parametrize("place", ["nowhere", "."])
    def test_a_folder_without_any(self, place, tmp_path):
        with pytest.raises(ModelError, match="no folders checkpoint-<step>"):
            find_checkpoints(tmp_path / place)

    def test_two_folders_of_one_step(self, tmp_path):
        for name in ("checkpoint-5", "checkpoint-05"):
            (tmp_path / name).mkdir()
        with pytest.raises(ModelError, match="two folders have the same step"):
            find_checkpoints(tmp_path)


class TestRevisions:
    @pytest.mark.parametrize(
        "revisions",
        [
            ["step1000", "step200"],
            ["step1000-tokens4B", "step200-tokens1B"],
            ["1000-main", "200-main"],
            {1000: "step1000", 200: "anything"},
            {"1000": "a", "200": "b"},
            [1000, 200],
        ],
    )
    def test_steps_are_given_or_read_from_names(self, revisions):
        found = find_checkpoints("someone/model", revisions)
        assert found.steps == [200, 1000]
        names = list(revisions.values()) if isinstance(revisions, dict) else [str(name) for name in revisions]
        assert found.places == {1000: ("someone/model", names[0]), 200: ("someone/model", names[1])}

    @pytest.mark.parametrize("name", ["main", "v1.0", "seed3-4000"])
    def test_a_name_that_does_not_say_its_step(self, name):
        with pytest.raises(ModelError, match=f"the revision {name!r} does not say its step"):
            find_checkpoints("someone/model", [name])

    def test_two_of_one_step(self):
        with pytest.raises(ModelError, match="two revisions have the same step"):
            find_checkpoints("someone/model", ["step5", "5-main"])

    def test_a_folder_has_no_revisions(self, run):
        found = find_checkpoints(run / "checkpoint-5", ["step5"])
        with pytest.raises(ModelError, match="is a folder and has no revision 'step5'"):
            found.load(5)

    def test_one_that_cannot_be_had_says_how_to_fetch_it(self):
        with pytest.raises(ModelError, match="nor to be had from the Hugging Face hub") as raised:
            find_checkpoints("nobody/nothing", ["step5"]).load(5)
        assert "--revision step5" in raised.value.fix


def test_places_may_be_given_by_hand(run):
    made = Checkpoints("mine", {2: (str(run / "checkpoint-10"), None), 1: (str(run / "checkpoint-5"), None)})
    assert [(step, model.name) for step, model in made] == [(1, "mine@1"), (2, "mine@2")]
