"""Looking into a trained policy: episodes played again, and what the task makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from longhaul.app.cases import PlayedCase, played_cases
from longhaul.app.env_output import apart_from_envs
from longhaul.app.trained import Trained, load_trained
from longhaul.core.env import Array, Observation
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Settings
from longhaul.core.study import Playback, Study
from longhaul.engine.replay import Moment, Replay
from longhaul.envs.starts import STARTS
from longhaul.runs.directory import RunDirectory
from longhaul.runs.durable import replace_file, storage_errors

EPISODES = 6
"""How many are played again if nobody says otherwise."""


@dataclass(frozen=True, slots=True)
class StudyRequest:
    """Which policy to look into, and how long."""

    checkpoint: str = "latest"
    episodes: int = EPISODES


@apart_from_envs("study")
def study_run(path: Path, request: StudyRequest) -> str:
    """Write the task's files about a checkpoint into `evaluations/`; return which they are."""
    if request.episodes < 1:
        raise ConfigError(f"--episodes must be at least 1, not {request.episodes}")
    run = RunDirectory(path)
    trained = load_trained(run, request.checkpoint)
    if trained.task.study is None:
        raise ConfigError(f"task {trained.task.name!r} has no studies of its policies")
    made = study(trained, trained.task.study, played_cases(run, trained), count=request.episodes)
    written = [run.evaluations / name for name in made]
    with storage_errors(run.evaluations):
        run.evaluations.mkdir(exist_ok=True)
        for file, text in zip(written, made.values(), strict=True):
            replace_file(file, text.encode())
    return "\n".join(f"study     {file}" for file in written)


def study(
    trained: Trained, look_into: Study, cases: Sequence[PlayedCase], *, count: int
) -> dict[str, str]:
    """Return the files the task makes of some of these episodes, the worst and best among them."""
    settings = trained.settings
    if STARTS.name in settings:
        settings = settings.with_([STARTS.to(())])
    played = [play_back(trained, case, settings) for case in spread(cases, count)]
    return dict(look_into(trained.policy, settings, played))


def spread(cases: Sequence[PlayedCase], count: int) -> list[PlayedCase]:
    """Return so many cases from the whole range of scores, in the order of their scores."""
    ranked = sorted(cases, key=lambda case: (case.score, case.number))
    places = np.linspace(0, len(ranked) - 1, min(count, len(ranked)))
    return [ranked[round(place)] for place in places]


def play_back(trained: Trained, case: PlayedCase, settings: Settings) -> Playback:
    """Return an episode of an evaluation with everything the policy saw."""
    seen: list[Observation] = []
    moments: list[Moment] = []
    with closing(Replay(case.envs, trained.policy, settings, case.scenario)) as replay:
        for moment in replay.moments():
            moments.append(moment)
            if moment.ending is None:
                seen.append(replay.observation())
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
    )
