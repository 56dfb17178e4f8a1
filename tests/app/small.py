"""Runs that take a fraction of a second."""

from __future__ import annotations

from pathlib import Path

from longhaul.app.build.config import RunConfig, SessionOptions
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run
from longhaul.engine.stop import after_iterations
from longhaul.runs.directory import RunDirectory

CARTPOLE = "gym:CartPole-v1"
SMALL = (
    "num_envs=2",
    "collect.num_steps=16",
    "learn.n_epochs=1",
    "policy.hidden=[8]",
    "total_timesteps=96",
    "evaluate.final_episodes=0",
    "env.check_seeds=false",
    "report.at_end=false",
)
QUIET = SessionOptions(quiet=True)


def small_config(task: str = CARTPOLE, *overrides: str) -> RunConfig:
    """Return a configuration of three iterations of 32 steps."""
    return resolve(ConfigSources(task=task, overrides=small(*overrides)))


def small(*overrides: str) -> tuple[str, ...]:
    """Return the small configuration with changes; its length is counted in one way."""
    others = ("total_iterations=", "total_episodes=")
    is_counted_otherwise = any(one.startswith(others) for one in overrides)
    base = [
        one for one in SMALL if not (is_counted_otherwise and one.startswith("total_timesteps="))
    ]
    return (*base, *overrides)


def flags(*overrides: str) -> list[str]:
    """Return the small configuration, then `overrides`, as arguments of a command."""
    return [word for override in small(*overrides) for word in ("--set", override)]


def finished_run(root: Path, *overrides: str, task: str = CARTPOLE) -> RunDirectory:
    """Return a run that was trained to its end."""
    config = small_config(task, *overrides)
    run = begin_run(config, root).directory
    assert run_session(run, config, QUIET).exit_code == 0
    return run


def stopped_run(
    root: Path, *overrides: str, iterations: int = 2, task: str = CARTPOLE
) -> RunDirectory:
    """Return a run that was stopped after a few iterations, a checkpoint after each of them."""
    config = small_config(task, "checkpoint.every_iterations=1", *overrides)
    run = begin_run(config, root).directory
    run_session(run, config, QUIET, also_until=after_iterations(iterations))
    return run
