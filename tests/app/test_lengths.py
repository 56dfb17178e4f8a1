"""How long a run is: whole numbers, counted in one way."""

from __future__ import annotations

from pathlib import Path

import pytest

from longhaul.app.build.sources import ConfigSources, resolve, to_values
from longhaul.app.session.run import run_session
from longhaul.app.session.start import find_run
from longhaul.core.errors import ConfigError
from longhaul.runs.reader import read_metrics
from longhaul.runs.toml import write_toml
from tests.app.small import CARTPOLE, QUIET, finished_run


@pytest.mark.parametrize("text", ["1e6", "1_000_000", "1000000.0", "1000000"])
def test_a_whole_number_may_be_written_as_people_write_it(text: str, tmp_path: Path) -> None:
    given = (f"total_timesteps={text}", f"learn.replay.capacity={text}")
    config = resolve(ConfigSources(CARTPOLE, overrides=given))
    assert (config.total_timesteps, config.learn.replay.capacity) == (1_000_000, 1_000_000)
    assert isinstance(config.total_timesteps, int)
    file = tmp_path / "mine.toml"
    file.write_text(f"total_timesteps = {text}\n")
    assert resolve(ConfigSources(CARTPOLE, file=file)).total_timesteps == 1_000_000


@pytest.mark.parametrize("key", ["total_timesteps", "learn.n_epochs"])
@pytest.mark.parametrize("text", ["1.5", "inf", "nan"])
def test_a_fraction_is_no_whole_number(key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} must be a whole number, not {text}"):
        resolve(ConfigSources(CARTPOLE, overrides=(f"{key}={text}",)))


def test_steps_for_a_run_in_iterations_are_refused(tmp_path: Path) -> None:
    both = "total_timesteps would have no effect: the length of the run is total_iterations = "
    with pytest.raises(ConfigError, match=both):
        resolve(ConfigSources("fish", preset="gate", flags={"total_timesteps": 5}))
    with pytest.raises(ConfigError, match=both):
        resolve(ConfigSources(CARTPOLE, overrides=("total_iterations=3", "total_timesteps=5")))
    file = tmp_path / "mine.toml"
    file.write_text("total_iterations = 3\ntotal_timesteps = 5\n")
    with pytest.raises(ConfigError, match=both):
        resolve(ConfigSources(CARTPOLE, file=file))
    resolve(ConfigSources(CARTPOLE, file=file, overrides=("total_iterations=0",)))
    words = "the length of the run is total_episodes = 3; change that, or set total_episodes=0"
    with pytest.raises(ConfigError, match=words):
        resolve(ConfigSources(CARTPOLE, overrides=("total_episodes=3", "total_timesteps=5")))


def test_a_run_has_one_length() -> None:
    words = "total_iterations = 4 and total_episodes = 3 are two lengths of one run"
    with pytest.raises(ConfigError, match=words):
        resolve(ConfigSources(CARTPOLE, overrides=("total_iterations=4", "total_episodes=3")))


def test_a_run_ends_with_the_rollout_of_its_last_episode(tmp_path: Path) -> None:
    run = finished_run(tmp_path, "total_episodes=3")
    counted = [row["episodes"] for row in read_metrics(run).rows]
    assert counted[-1] >= 3 > counted[-2]
    assert run.read_record().reason == "total_episodes reached"


def test_a_run_in_episodes_can_be_resumed_for_more(tmp_path: Path) -> None:
    run = finished_run(tmp_path / "short", "total_episodes=2", "schedule=[]")
    start = find_run(run.path, total_timesteps=None, overrides=["total_episodes=5"])
    run_session(run, start.config, QUIET)
    whole = finished_run(tmp_path / "long", "total_episodes=5", "schedule=[]")
    assert run.metrics.read_bytes() == whole.metrics.read_bytes()
    with pytest.raises(ConfigError, match="the length of the run is total_episodes = 5"):
        find_run(run.path, total_timesteps=500, overrides=())


@pytest.mark.parametrize(("task", "preset"), [("fish", "gate"), (CARTPOLE, "")])
def test_a_stored_config_is_taken_back(task: str, preset: str, tmp_path: Path) -> None:
    stored = resolve(ConfigSources(task, preset=preset))
    file = tmp_path / "config.toml"
    file.write_text(write_toml(to_values(stored)))
    assert resolve(ConfigSources(task, file=file)) == stored


def test_a_config_for_another_task_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('task = "fish"\n')
    words = r"the config is for task \"fish\", not 'gym:CartPole-v1'"
    with pytest.raises(ConfigError, match=words):
        resolve(ConfigSources(CARTPOLE, file=file))
