"""Sample Factory's own Atari example under our conditions, to measure beside ours.

Run as a script by a Python that has it (`make peers-atari` makes one). It writes agent steps a
second.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

# Registers the games, in the processes that import this file to make environments as well.
with suppress(ImportError):
    import ale_py  # noqa: F401


def arguments(asked: dict[str, Any], folder: str) -> list[str]:
    """Return the run as Sample Factory's command line takes it."""
    size = asked["num_envs"] * asked["steps"]
    is_serial = asked["mode"] == "serial"
    workers = 1 if is_serial else asked["workers"]
    chosen: dict[str, Any] = {
        "env": f"atari_{asked['game'].lower()}",
        "experiment": "bench",
        "train_dir": folder,
        "device": "cpu",
        "seed": asked["seed"],
        "num_workers": workers,
        "num_envs_per_worker": asked["num_envs"] // workers,
        "rollout": asked["steps"],
        "batch_size": asked["minibatch_size"],
        "num_batches_per_epoch": size // asked["minibatch_size"],
        "num_epochs": asked["n_epochs"],
        "shuffle_minibatches": True,
        "serial_mode": is_serial,
        "async_rl": not is_serial,
        # What the others do not do.
        "normalize_input": False,
        "normalize_returns": False,
        "summaries_use_frameskip": False,
        "learning_rate": asked["learning_rate"],
        "train_for_env_steps": asked["iterations"] * size - 1,
        "save_every_sec": 100_000,
        "with_wandb": False,
        "set_workers_cpu_affinity": False,
    }
    return [f"--{name}={value}" for name, value in chosen.items()]


def measure(asked: dict[str, Any]) -> dict[str, float]:
    """Return the speed of some iterations after the first."""
    sys.path.append(str(Path(__file__).parents[2]))
    from benchmarks.peers.sample_factory import run_measured
    from sf_examples.atari.train_atari import parse_atari_args, register_atari_components

    register_atari_components()
    with TemporaryDirectory(prefix="longhaul-bench-") as folder:
        cfg = parse_atari_args(arguments(asked, folder))
        return run_measured(cfg, asked["num_envs"] * asked["steps"], asked["threads"])


if __name__ == "__main__":
    found = measure(json.loads(sys.argv[1]))
    # Its log goes to the same place; this is the last line.
    sys.stdout.write("\n" + json.dumps(found) + "\n")
    sys.stdout.flush()
