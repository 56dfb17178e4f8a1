from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest

from longhaul.app.artifacts.records import play_back, spread, study, study_run
from longhaul.app.evaluation.agent import Agent
from longhaul.app.evaluation.evaluate import played_cases
from longhaul.app.evaluation.load import Run
from longhaul.core.errors import ConfigError
from longhaul.core.evaluation import Playback, Records
from longhaul.core.policy import Policy
from longhaul.core.settings import Settings
from longhaul.runs.directory import RunDirectory
from tests.app.small import finished_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return finished_run(tmp_path_factory.mktemp("runs"), "evaluate.final_episodes=5")


@pytest.fixture(scope="module")
def trained(run: RunDirectory) -> Agent:
    return Run(run).agent("latest")


def test_an_episode_played_back_is_the_one_of_the_evaluation(
    run: RunDirectory, trained: Agent
) -> None:
    for case in played_cases(Run(run), trained):
        played = play_back(trained, case, trained.settings)
        assert played.seed == case.episode.seed
        assert played.reason == case.episode.reason
        assert len(played.action) == len(played.value) == len(played.reward) == case.episode.length
        assert all(len(part) == case.episode.length for part in played.obs.values())
        assert float(played.reward.sum()) == pytest.approx(case.episode.episode_return, abs=1e-4)


def test_the_episodes_of_a_study_cover_the_range_of_scores(
    run: RunDirectory, trained: Agent
) -> None:
    cases = played_cases(Run(run), trained)
    scores = sorted(case.score for case in cases)
    chosen = [case.score for case in spread(cases, 3)]
    assert (chosen[0], chosen[-1], len(chosen)) == (scores[0], scores[-1], 3)
    assert len(spread(cases, 99)) == len(cases)


def test_a_task_makes_files_of_what_it_is_shown(run: RunDirectory, trained: Agent) -> None:
    def lengths(policy: Policy, settings: Settings, played: Sequence[Playback]) -> Records:
        assert policy is trained.policy
        assert settings == trained.settings
        return {"lengths.json": json.dumps([len(one.action) for one in played])}

    made = study(trained, lengths, played_cases(Run(run), trained), count=2)
    assert all(np.array(json.loads(made["lengths.json"])) > 0)


def test_a_task_without_studies_says_so(run: RunDirectory) -> None:
    with pytest.raises(ConfigError, match="has no studies"):
        study_run(Run(run))
    with pytest.raises(ConfigError, match="--episodes must be at least 1"):
        study_run(Run(run), episodes=0)
