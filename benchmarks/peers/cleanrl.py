"""One of CleanRL's scripts as it is published, to measure beside ours.

Run as a script by a Python that has both (`make peers-atari` makes one). It writes agent steps a
second.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

SPEED = "SPS:"
"""How the line begins that CleanRL prints after every iteration."""


def arguments(asked: dict[str, Any]) -> list[str]:
    """Return the run as CleanRL's command line takes it."""
    size = asked["num_envs"] * asked["steps"]
    chosen = {
        "cuda": False,
        "env-id": asked["game"] + asked["suffix"],
        "seed": asked["seed"],
        "total-timesteps": asked["iterations"] * size,
        "num-envs": asked["num_envs"],
        "num-steps": asked["steps"],
        "num-minibatches": size // asked["minibatch_size"],
        "update-epochs": asked["n_epochs"],
        "learning-rate": asked["learning_rate"],
        "clip-coef": asked["clip_range"],
    }
    return [f"--{name}={value}" for name, value in chosen.items()]


def measure(asked: dict[str, Any]) -> dict[str, float]:
    """Return the speed of some iterations after the first."""
    sys.path.append(str(Path(__file__).parents[2]))
    from benchmarks.peers.marks import Marks

    marks = Marks()
    size = asked["num_envs"] * asked["steps"]
    command = [sys.executable, "-u", "-W", "ignore", "-m", f"cleanrl.{asked['script']}"]
    with TemporaryDirectory(prefix="longhaul-bench-") as folder:
        process = subprocess.Popen(
            [*command, *arguments(asked)],
            cwd=folder,  # it writes its logs there
            env={**os.environ, "OMP_NUM_THREADS": str(asked["threads"])},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        iterations = 0
        for line in process.stdout:
            if line.startswith(SPEED):
                iterations += 1
                marks(iterations * size)
        if process.wait():
            raise RuntimeError(f"cleanrl ended with {process.returncode}")
    return marks.rates()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(json.loads(sys.argv[1]))) + "\n")
