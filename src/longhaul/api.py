"""The Python interface; the command line is a thin layer over it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longhaul.app.build.config import SessionOptions

if TYPE_CHECKING:
    from longhaul.app.build.config import RunConfig
    from longhaul.app.evaluation.load import Agent, Run

DEFAULT_OPTIONS = SessionOptions()
__all__ = ["SessionOptions", "load", "resolve_config", "resume", "train"]


def resolve_config(
    task: str,
    *,
    preset: str = "",
    config: Path | None = None,
    overrides: Sequence[str] = (),
    **values: Any,
) -> RunConfig:
    """Return the config made of preset, file, values and `key=value` overrides, in that order."""
    from longhaul.app.build.sources import ConfigSources, resolve

    return resolve(
        ConfigSources(task=task, preset=preset, file=config, flags=values, overrides=overrides)
    )


def train(
    task: str,
    *,
    preset: str = "",
    config: Path | None = None,
    overrides: Sequence[str] = (),
    resume: str = "same",
    runs_root: Path | str = "runs",
    options: SessionOptions = DEFAULT_OPTIONS,
    **values: Any,
) -> Run | None:
    """Train a task, or continue its run, and return the run with its `outcome`.

    Returns None in a process that torchrun started as a follower of the learning process.
    """
    resolved = resolve_config(task, preset=preset, config=config, overrides=overrides, **values)
    # Imported after the config is checked: torch takes seconds to import.
    from longhaul.app.build.distributed import follow_group
    from longhaul.app.build.memory import choose_device
    from longhaul.app.evaluation.load import Run
    from longhaul.app.session.display import choose_display
    from longhaul.app.session.run import run_session
    from longhaul.app.session.start import start_or_resume
    from longhaul.cluster.config import launched_rank

    rank = launched_rank()
    if not rank.is_leader:
        follow_group(resolved, rank)
        return None
    choose_device(resolved.device, require_gpu=options.require_gpu)
    notify = choose_display(as_json=options.as_json, quiet=options.quiet).notice
    start = start_or_resume(resolved, Path(runs_root), choice=resume, notify=notify)
    if start.is_over:
        return Run(start.directory)
    outcome = run_session(start.directory, resolved, options, task=start.task)
    return Run(start.directory, outcome=outcome)


def resume(
    path: Path | str,
    *,
    total_timesteps: int | None = None,
    overrides: Sequence[str] = (),
    options: SessionOptions = DEFAULT_OPTIONS,
) -> Run | None:
    """Continue a run from its newest intact checkpoint, for longer if asked, and return it."""
    from longhaul.app.build.distributed import follow_group
    from longhaul.app.evaluation.load import Run
    from longhaul.app.session.run import run_session
    from longhaul.app.session.start import find_run
    from longhaul.cluster.config import launched_rank

    start = find_run(Path(path), total_timesteps=total_timesteps, overrides=overrides)
    rank = launched_rank()
    if not rank.is_leader:
        follow_group(start.config, rank)
        return None
    outcome = run_session(start.directory, start.config, options)
    return Run(start.directory, outcome=outcome)


def load(place: Path | str, checkpoint: str = "") -> Agent:
    """Return the trained agent of a run, of one of its checkpoints or of an exported folder.

    For a run this is the best checkpoint that was evaluated, else the latest, unless `checkpoint`
    names one.
    """
    from longhaul.app.evaluation.load import load as load_agent

    return load_agent(place, checkpoint)
