"""Training on environments of uneven speed, in lockstep and first come, first served.

Run from the repository's folder: `python -m benchmarks.first_come --steps 60000 --seeds 3`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from longhaul.app.build.config import SessionOptions
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.app.build.text import columns
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run
from longhaul.runs.logs.jsonl import read_rows

TASK = "gym:benchmarks.uneven_env:UnevenCartPole-v0"
MODES = {"lockstep": ("env.order=lockstep",), "first-come": ("env.order=first-come",)}
SAME = (
    "env.runtime=processes",
    "env.processes.workers=16",  # in lockstep too: sleepers of one worker would sleep in turn
    "num_envs=16",
    "collect.num_steps=128",
    "learn.learning_rate=0.001",
    "learn.gamma=0.98",
    "learn.gae_lambda=0.8",
    "learn.n_epochs=10",
    "learn.minibatch_size=256",
    "evaluate.final_episodes=0",
)
GOOD = 195.0


@dataclass(frozen=True, slots=True)
class Trained:
    """How a run went."""

    seconds: float
    env_steps: float
    last_return: float  # mean of the last 100 episodes
    seconds_to_good: float | None

    @property
    def speed(self) -> float:
        """Steps a second."""
        return self.env_steps / self.seconds


def train_once(overrides: tuple[str, ...], *, steps: int, seed: int) -> Trained:
    """Train one run in a folder that is gone afterwards."""
    config = resolve(
        ConfigSources(
            task=TASK, overrides=(*SAME, *overrides, f"seed={seed}", f"total_timesteps={steps}")
        )
    )
    with TemporaryDirectory(prefix="longhaul-first-come-") as folder:
        run = begin_run(config, Path(folder)).directory
        run_session(run, config, SessionOptions(quiet=True))
        metrics, timings = read_rows(run.metrics).rows, read_rows(run.timings).rows
    # From the end of the first iteration on, so starting the workers does not count.
    seconds = [float(row["time/session_seconds"]) for row in timings]
    seconds = [moment - seconds[0] for moment in seconds]
    good = [
        moment
        for row, moment in zip(metrics, seconds, strict=True)
        if float(row.get("rollout/ep_rew_mean", 0.0)) >= GOOD
    ]
    return Trained(
        seconds[-1],
        float(metrics[-1]["time/total_timesteps"]) - float(metrics[0]["time/total_timesteps"]),
        float(metrics[-1]["rollout/ep_rew_mean"]),
        good[0] if good else None,
    )


def main() -> None:
    """Train every mode with every seed, in turn, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    found: dict[str, list[Trained]] = {name: [] for name in MODES}
    for seed in range(1, asked.seeds + 1):
        for name, overrides in MODES.items():
            began = time.perf_counter()
            found[name].append(train_once(overrides, steps=asked.steps, seed=seed))
            sys.stderr.write(f"{name}, seed {seed}: {time.perf_counter() - began:.0f} s\n")
    rows = []
    for name, runs in found.items():
        reached = [run.seconds_to_good for run in runs]
        rows.append(
            (
                name,
                f"{statistics.median(run.speed for run in runs):,.0f}",
                f"{statistics.median(run.seconds for run in runs):.0f} s",
                " ".join("never" if s is None else f"{s:.0f} s" for s in reached),
                " ".join(f"{run.last_return:.0f}" for run in runs),
            )
        )
    header = (
        f"{asked.steps:,} steps",
        "steps/s",
        "whole run",
        f"return {GOOD:.0f} after",
        "return at the end",
    )
    sys.stdout.write(columns(rows, header=header) + "\n")


if __name__ == "__main__":
    main()
