"""Files that a task derives from a run: records of its logs, snapshots, studies of policies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from longhaul.app.build.components import build_schedule, build_settings
from longhaul.app.build.config import RunConfig
from longhaul.app.build.env_output import with_env_output
from longhaul.app.evaluation.agent import Agent
from longhaul.app.evaluation.episode_player import Moment, Replay, Scenario
from longhaul.app.evaluation.evaluate import PlayedCase, played_cases
from longhaul.app.evaluation.load import Run, load_named
from longhaul.core.env import Array, Bools, Observation
from longhaul.core.errors import CheckpointError, ConfigError, EnvError
from longhaul.core.evaluation import Playback, RunLog, Study, StudyFiles
from longhaul.core.parts import Recorded, RunListener
from longhaul.core.settings import Settings, SettingValue
from longhaul.core.task import Task
from longhaul.report.film import FilmError, Picture
from longhaul.report.pictures import encode_png
from longhaul.report.snapshots import EpisodeSnapshot, keep_snapshots
from longhaul.report.style import PlotError
from longhaul.runs.checkpoints.inspect import spread_out
from longhaul.runs.checkpoints.store import Loaded
from longhaul.runs.directory import RunDirectory, Status
from longhaul.runs.durable import replace_file, storage_errors
from longhaul.runs.lock import Clocks
from longhaul.runs.logs.jsonl import Row
from longhaul.runs.reader import (
    read_checkpoints,
    read_episodes,
    read_events,
    read_metrics,
    read_sessions,
)

_WORK = ("time/collect_seconds", "time/learn_seconds", "time/evaluate_seconds")


MOST = 0.02
"""Share of a run's time that writing its records may take."""


class TaskRecords(RunListener):
    """Writes the records again after evaluations, and when the run stops.

    They are derived from the whole run, so each takes longer than the last. If an evaluation comes
    too soon, the records are written after the next one, or at the end.
    """

    def __init__(self, run: RunDirectory, config: RunConfig, task: Task, clocks: Clocks) -> None:
        self._run = run
        self._task = task
        self._clocks = clocks
        self._opening = opening_settings(config, task)
        self._not_before = clocks.monotonic()

    def iteration(self, recorded: Recorded) -> None:
        """Write the records if the iteration has an evaluation."""
        begun = self._clocks.monotonic()
        is_measured = any(name.startswith("eval/") for name in recorded.metrics)
        if begun < self._not_before or not is_measured:
            return
        write_records(self._run, self._task, self._opening, self._clocks)
        ended = self._clocks.monotonic()
        self._not_before = ended + (ended - begun) / MOST

    def close(self) -> None:
        """Write the records a last time."""
        write_records(self._run, self._task, self._opening, self._clocks)


def record_run(run: Run) -> str:
    """Write the records of a run now; return the written files."""
    if run.task.records is None:
        raise ConfigError(f"task {run.task.name!r} has no records")
    opening = opening_settings(run.config, run.task)
    written = write_records(run.directory, run.task, opening, Clocks())
    return "\n".join(map(str, written))


def opening_settings(config: RunConfig, task: Task) -> dict[str, SettingValue]:
    """Return the initial settings of a run of this configuration."""
    settings = build_settings(config, task)
    # A separate schedule: that of the run must begin only once.
    return build_schedule(config, task, settings).begin(settings)[0].values()


def write_records(
    run: RunDirectory, task: Task, opening: Mapping[str, SettingValue], clocks: Clocks
) -> tuple[Path, ...]:
    """Write the task's records to the run's `evaluations/`."""
    if task.records is None:
        return ()
    return _write(run.evaluations, task.records(run_log(run, opening, clocks)))


def _write(folder: Path, files: StudyFiles) -> tuple[Path, ...]:
    """Write files into a folder, each completely or not at all."""
    written = tuple(folder / name for name in files)
    with storage_errors(folder):
        folder.mkdir(exist_ok=True)
        for path, content in zip(written, files.values(), strict=True):
            replace_file(path, content if isinstance(content, bytes) else content.encode())
    return written


def run_log(run: RunDirectory, opening: Mapping[str, SettingValue], clocks: Clocks) -> RunLog:
    """Return the logs of a run so far."""
    record = run.read_record()
    rows = read_metrics(run).rows
    made = [path for folder in (run.plots, run.media) for path in folder.rglob("*.*")]
    return RunLog(
        name=record.name,
        metrics=rows,
        events=read_events(run).rows,
        settings=opening,
        episodes=lambda: read_episodes(run).rows,
        is_over=record.status is Status.FINISHED,
        now=clocks.stamp(),
        times=_times(rows, read_sessions(run).rows),
        checkpoints={
            entry.manifest.progress.iteration: entry.path.relative_to(run.path).as_posix()
            for entry in read_checkpoints(run)
            if entry.manifest is not None
        },
        files=frozenset(path.relative_to(run.path).as_posix() for path in made),
    )


def _times(rows: Sequence[Row], sessions: Sequence[Row]) -> dict[int, str]:
    """Return when each iteration ended: the start of its session plus the work done since."""
    begun = [row for row in sessions if row.get("event") in ("started", "resumed")]
    spent: dict[int, float] = {}
    times = {}
    for row in rows:
        own = [place for place, one in enumerate(begun) if one["iteration"] < row["iteration"]]
        if not own or "time/iteration_seconds" not in row:
            continue
        # The time of a session's first iteration includes the set-up, which is not work.
        names = _WORK if own[-1] not in spent else ("time/iteration_seconds",)
        spent[own[-1]] = spent.get(own[-1], 0.0) + sum(row.get(name, 0.0) for name in names)
        ended = datetime.fromisoformat(begun[own[-1]]["time"]) + timedelta(seconds=spent[own[-1]])
        times[row["iteration"]] = ended.isoformat(timespec="milliseconds")
    return times


LED_HERE = 16
"""Steps before the last that are rendered too: some envs draw trails of earlier steps."""


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """Which moment of which episode to render, by how many checkpoints."""

    count: int
    step: int
    seed: int


def snapshot_run(run: Run, request: SnapshotRequest) -> str:
    """Write a picture by each of so many checkpoints spread over the run; return the folder."""
    steps = {
        entry.path: entry.manifest.progress.env_steps
        for entry in read_checkpoints(run.directory)
        if entry.manifest is not None
    }
    chosen = [load_named(path) for path in spread_out(steps, request.count)]
    if not chosen:
        raise CheckpointError(f"{run.path} has no checkpoint yet")
    agent = run.agent(chosen[-1].path.name)
    shots = [_shot(agent, loaded, request) for loaded in chosen]
    folder = keep_snapshots(run.directory, shots)
    return f"snapshots {folder} ({len(shots)} checkpoints)"


def _shot(
    agent: Agent, loaded: Loaded, request: SnapshotRequest
) -> tuple[EpisodeSnapshot, Picture]:
    """Return the snapshot of a checkpoint's policy in the episode."""
    agent.load(loaded)
    scenario = Scenario(request.seed)
    with closing(Replay(agent.task.envs, agent.policy, agent.replay_settings, scenario)) as replay:
        moment, picture = _after(replay, request.step)
    progress, spec = loaded.manifest.progress, agent.task.envs.spec
    there = int(moment.active.sum())
    caption = f"{there} of {spec.rows} {spec.row_name}" if spec.rows > 1 else _score(moment)
    return (
        EpisodeSnapshot(
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


def _after(replay: Replay, step: int) -> tuple[Moment, Picture]:
    """Return the moment after so many steps, or the episode's last, and its picture."""
    for moment in replay.moments():
        is_last = moment.step >= step or moment.ending is not None
        if moment.step > step - LED_HERE or is_last:
            picture = replay.picture()
        if is_last:
            break
    if picture is None:
        raise FilmError(f"{replay.spec.id} does not render pictures")
    return moment, picture


def _score(moment: Moment) -> str:
    ended = "" if moment.ending is None else f", over after {moment.step}"
    return f"return {moment.episode_return:.1f}{ended}"


EPISODES = 6
"""Default number of replayed episodes."""


@with_env_output("study")
def study_run(run: Run, checkpoint: str = "latest", episodes: int = EPISODES) -> str:
    """Write the task's study of a checkpoint to `evaluations/`; return the files."""
    if episodes < 1:
        raise ConfigError(f"--episodes must be at least 1, not {episodes}")
    agent = run.agent(checkpoint)
    if agent.task.study is None:
        raise ConfigError(f"task {agent.task.name!r} has no studies")
    made = study(agent, agent.task.study, played_cases(run, agent), count=episodes)
    written = _write(run.directory.evaluations, made)
    return "\n".join(f"study     {file}" for file in written)


def study(agent: Agent, look_into: Study, cases: Sequence[PlayedCase], *, count: int) -> StudyFiles:
    """Return the task's study of some of these episodes, including the worst and the best."""
    settings = agent.replay_settings
    played = [play_back(agent, case, settings) for case in spread(cases, count)]
    return look_into(agent.policy, settings, played)


def spread(cases: Sequence[PlayedCase], count: int) -> list[PlayedCase]:
    """Return so many cases from the whole range of scores, in order of score."""
    ranked = sorted(cases, key=lambda case: (case.score, case.number))
    places = np.linspace(0, len(ranked) - 1, min(count, len(ranked)))
    return [ranked[round(place)] for place in places]


def play_back(agent: Agent, case: PlayedCase, settings: Settings) -> Playback:
    """Replay an episode of an evaluation and return it with all observations."""
    seen: list[Observation] = []
    masks: list[Bools] = []
    moments: list[Moment] = []
    with closing(Replay(case.envs, agent.policy, settings, case.scenario)) as replay:
        for moment in replay.moments():
            moments.append(moment)
            if moment.ending is None:
                seen.append(replay.observation())
                masks += [mask for mask in [replay.mask()] if mask is not None]
    actions: list[Array] = [moment.action for moment in moments if moment.action is not None]
    ending = moments[-1].ending
    return Playback(
        number=case.number,
        seed=case.episode.seed,
        score=case.score,
        reason=ending.reason if ending is not None else "",
        obs={name: np.stack([one[name] for one in seen]) for name in seen[0]},
        action=np.stack(actions),
        value=np.stack([moment.value for moment in moments[:-1]]),
        reward=np.array([moment.reward for moment in moments[1:]], np.float32),
        mask=np.stack(masks) if masks else None,
        pictures=lambda steps: _pictures(agent, case, settings, steps),
    )


def _pictures(
    agent: Agent, case: PlayedCase, settings: Settings, steps: Collection[int]
) -> dict[int, bytes]:
    """Replay an episode and return what was to be seen before these steps, as PNG.

    Where nothing can be drawn, for want of a library or by the env's nature, there are none.
    """
    found = {}
    with closing(Replay(case.envs, agent.policy, settings, case.scenario)) as replay:
        for moment in replay.moments():
            try:
                picture = replay.picture() if moment.step in steps else None
                if picture is not None:
                    found[moment.step] = encode_png(picture)
            except (EnvError, PlotError):
                return {}
            if moment.step >= max(steps, default=0):
                break
    return found
