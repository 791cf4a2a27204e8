"""Train in child processes that are killed (SIGKILL) again and again until one reaches the end.

    python -m unit.finetune.kill_training BASE CACHE SEED

Every child is forked from here, so that the libraries are imported once. It kills itself with the
signal no process can catch: at a random point of a random step, or while it writes a checkpoint.
Prints how often it was killed, how many steps the last child still had to take, and the hashes of weights and log.
"""

import os
import random
import signal
import sys
from pathlib import Path

import accelerate  # noqa: F401 (here, so that no child imports it again)

from unit.finetune.made import opinions
from vestige.digest import sha256_of_file
from vestige.finetune.loop import Run
from vestige.finetune.model import Tunable
from vestige.finetune.recipe import Recipe
from vestige.finetune.train import finetune

RECIPE = Recipe(rate=1e-3, epochs=3, batch=4, save_steps=5, early_stopping=2)


def train(base: str, cache: str, state_seconds: float):
    return finetune(base, opinions(), RECIPE, threads=1, cache=Path(cache), state_seconds=state_seconds)


def doom(rng: random.Random) -> None:
    """Make this process kill itself a few steps from now."""
    left = rng.randint(1, 9)
    where = rng.choice(["before", "after", "saving"])
    step, save = Run._step, Tunable.save

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def doomed_step(self, batch):
        nonlocal left
        left -= 1
        if left <= 0 and where == "before":
            die()
        loss = step(self, batch)
        if left <= 0 and where == "after":
            die()
        return loss

    def doomed_save(self, folder):
        save(self, folder)
        if where == "saving":
            die()

    Run._step, Tunable.save = doomed_step, doomed_save


steps = 0


def count_steps() -> None:
    step = Run._step

    def counted(self, batch):
        global steps
        steps += 1
        return step(self, batch)

    Run._step = counted


def main(base: str, cache: str, seed: str) -> None:
    count_steps()
    rng = random.Random(int(seed))
    killed = 0
    while True:
        state_seconds = rng.choice([0.0, 0.0, 0.05])
        doomed = killed < 4
        child = os.fork()
        if child == 0:
            if doomed:
                doom(rng)
            train(base, cache, state_seconds)
            Path(f"{cache}.steps").write_text(str(steps))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        rng.random()
        if os.WIFSIGNALED(status):
            assert os.WTERMSIG(status) == signal.SIGKILL
            killed += 1
        else:
            assert os.WEXITSTATUS(status) == 0
            break
    found = train(base, cache, 300.0)
    left = Path(f"{cache}.steps").read_text()
    print(
        killed, left, sha256_of_file(found.folder / "model.safetensors"), sha256_of_file(found.folder / "finetune.json")
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
