"""Playing one episode with checkpoints from all over a run, for a look at how it was learned."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from longhaul.app.checkpoints import load_named, load_weights
from longhaul.app.trained import Trained, load_trained
from longhaul.core.errors import CheckpointError
from longhaul.core.settings import Assignment, Settings
from longhaul.engine.replay import Moment, Replay, Scenario
from longhaul.envs.starts import STARTS
from longhaul.report.film import FilmError, Picture
from longhaul.report.snapshots import Snapshot, keep_snapshots
from longhaul.runs.checkpoint import Loaded
from longhaul.runs.directory import RunDirectory
from longhaul.runs.reader import read_checkpoints
from longhaul.runs.retention import spread_out

LED_HERE = 16
"""Steps before the last that are drawn too: some envs show the way that led to a picture."""


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """Which moment of which episode is looked at, by how many checkpoints."""

    count: int
    step: int
    seed: int


def snapshot_run(run: RunDirectory, request: SnapshotRequest) -> str:
    """Keep a picture by each of so many checkpoints spread over the run, and tell where."""
    steps = {
        entry.path: entry.manifest.progress.env_steps
        for entry in read_checkpoints(run)
        if entry.manifest is not None
    }
    chosen = [load_named(path) for path in spread_out(steps, request.count)]
    if not chosen:
        raise CheckpointError(f"{run.path} has no checkpoint yet")
    trained = load_trained(run, chosen[-1].path.name)
    shots = [_shot(trained, loaded, request) for loaded in chosen]
    folder = keep_snapshots(run, shots)
    return f"snapshots {folder} ({len(shots)} checkpoints)"


def _shot(trained: Trained, loaded: Loaded, request: SnapshotRequest) -> tuple[Snapshot, Picture]:
    """Return what a checkpoint's policy makes of the episode."""
    load_weights(trained.policy, loaded)
    settings = _settings(trained, loaded)
    with closing(
        Replay(trained.task.envs, trained.policy, settings, Scenario(request.seed))
    ) as replay:
        moment, picture = _after(replay, request.step)
    progress, spec = loaded.manifest.progress, trained.task.envs.spec
    there = int(moment.active.sum())
    caption = f"{there} of {spec.rows} {spec.row_name}" if spec.rows > 1 else _score(moment)
    return (
        Snapshot(
            file=f"{loaded.path.name}.png",
            checkpoint=loaded.path.name,
            iteration=progress.iteration,
            env_steps=progress.env_steps,
            step=request.step,
            seed=request.seed,
            caption=caption,
        ),
        picture,
    )


def _settings(trained: Trained, loaded: Loaded) -> Settings:
    settings = trained.settings.with_(
        Assignment(name, value) for name, value in loaded.manifest.settings.items()
    )
    return settings.with_([STARTS.to(())]) if STARTS.name in settings else settings


def _after(replay: Replay, step: int) -> tuple[Moment, Picture]:
    """Return the moment after so many steps, or the episode's last one, and its picture."""
    for moment in replay.moments():
        is_last = moment.step >= step or moment.ending is not None
        if moment.step > step - LED_HERE or is_last:
            picture = replay.picture()
        if is_last:
            break
    if picture is None:
        raise FilmError(f"{replay.spec.id} draws no pictures of itself")
    return moment, picture


def _score(moment: Moment) -> str:
    ended = "" if moment.ending is None else f", over after {moment.step}"
    return f"return {moment.episode_return:.1f}{ended}"
