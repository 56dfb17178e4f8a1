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


sys.path.append(str(Path(__file__).parents[2]))
from benchmarks.peers.sample_factory import answer, command_line, run_measured


def arguments(asked: dict[str, Any], folder: str) -> list[str]:
    """Return a run over Atari games."""
    workers = 1 if asked["mode"] == "serial" else asked["workers"]
    own = {
        "env": f"atari_{asked['game'].lower()}",
        "num_workers": workers,
        "num_envs_per_worker": asked["num_envs"] // workers,
        "shuffle_minibatches": True,
        "summaries_use_frameskip": False,
    }
    return command_line(asked, folder, own)


def measure(asked: dict[str, Any]) -> dict[str, float]:
    """Return the speed of some iterations after the first."""
    from sf_examples.atari.train_atari import parse_atari_args, register_atari_components

    register_atari_components()
    with TemporaryDirectory(prefix="longhaul-bench-") as folder:
        cfg = parse_atari_args(arguments(asked, folder))
        return run_measured(cfg, asked["num_envs"] * asked["steps"], asked["threads"])


if __name__ == "__main__":
    answer(measure(json.loads(sys.argv[1])))
