"""A killed run goes on and ends with the very same weights and log; two runs at once do not meet."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import tiny

from unit.finetune import kill_training
from vestige.digest import sha256_of_file
from vestige.finetune.workplace import STATE, working
from vestige.models.files.series import find_checkpoints


def test_killed_at_random_steps_it_ends_with_the_same_weights(tmp_path):
    base = tiny.save("bert", tmp_path / "bert")
    straight = kill_training.train(str(base), str(tmp_path / "straight"), 300.0)
    script = [sys.executable, "-m", kill_training.__name__, str(base), str(tmp_path / "killed"), "5"]
    tests = Path(kill_training.__file__).parents[2]
    quiet = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
    run = subprocess.run(script, capture_output=True, text=True, cwd=tests, env=quiet)
    assert run.returncode == 0, run.stderr[-3000:]
    killed, left, weights, log = run.stdout.split()[-4:]
    assert int(killed) == 4 and 0 < int(left) < straight.log["steps"]
    assert weights == sha256_of_file(straight.folder / "model.safetensors")
    assert log == sha256_of_file(straight.folder / "finetune.json")
    made = tmp_path / "killed" / "models" / straight.folder.name
    assert [path.name for path in made.parent.iterdir()] == [made.name]
    assert sorted(p.name for p in made.iterdir()) == sorted(p.name for p in straight.folder.iterdir())
    assert find_checkpoints(made).steps == find_checkpoints(straight.folder).steps
    for step in find_checkpoints(made).steps:
        pair = [folder / f"checkpoint-{step}" / "model.safetensors" for folder in (made, straight.folder)]
        assert sha256_of_file(pair[0]) == sha256_of_file(pair[1])


class TestWorkplace:
    def test_what_can_go_on_is_kept_and_the_rest_taken_away(self, tmp_path):
        place = tmp_path / "x"
        try:
            with working(place) as folder:
                (folder / STATE).touch()
                (folder / "checkpoint-1").mkdir()
                (folder / ".checkpoint-2.part").mkdir()
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            pass
        with working(place) as again:
            assert again == folder and sorted(p.name for p in again.iterdir()) == [STATE, "checkpoint-1"]
            (again / STATE).unlink()
            (again / "proof").touch()
        assert [p.name for p in tmp_path.iterdir()] == ["x"] and (place / "proof").exists()

    def test_without_a_state_a_run_starts_from_an_empty_folder(self, tmp_path):
        (tmp_path / ".x.training" / "checkpoint-1").mkdir(parents=True)
        with working(tmp_path / "x") as folder:
            assert not list(folder.iterdir())

    def test_a_second_process_works_elsewhere_and_the_first_to_finish_wins(self, tmp_path):
        place = tmp_path / "x"
        folders: list[Path] = []

        def second():
            with working(place) as folder:
                folders.append(folder)
                (folder / "proof").write_text("second")

        with working(place) as first:
            other = threading.Thread(target=second)
            other.start()
            other.join()
            (first / "proof").write_text("first")
        assert folders[0] != first and (place / "proof").read_text() == "second"
        assert [p.name for p in tmp_path.iterdir()] == ["x"]
