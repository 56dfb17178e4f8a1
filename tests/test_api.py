"""The public Python interface: train, look at the run, load the agent, act."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import pytest
import torch

import longhaul
from longhaul.api import resolve_config
from longhaul.core.errors import ConfigError
from longhaul.core.spaces import Discrete

SMALL: dict[str, Any] = {
    "total_timesteps": 2048,
    "num_envs": 4,
    "collect": {"num_steps": 64},
    "evaluate": {"final_episodes": 2},
    "schedule": [],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> longhaul.Run:
    root = tmp_path_factory.mktemp("runs")
    return longhaul.train("gym:CartPole-v1", seed=1, runs_root=root, quiet=True, **SMALL)


def test_importing_the_package_loads_no_heavy_library() -> None:
    code = "import longhaul, sys; print(sorted({'torch', 'numpy', 'gymnasium'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_can_be_imported() -> None:
    for name in longhaul.__all__:
        assert getattr(longhaul, name).__name__ == name
    assert set(dir(longhaul)) == set(longhaul.__all__)
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = longhaul.trian


def test_training_returns_the_run_and_the_same_call_continues_nothing_finished(
    run: longhaul.Run,
) -> None:
    assert run.outcome is not None
    assert run.outcome.exit_code == 0
    assert run.config.seed == 1


def test_curves_are_arrays_of_one_length(run: longhaul.Run) -> None:
    curves = run.metrics("rollout/ep_rew_mean", table="arrays")
    assert list(curves) == ["iteration", "env_steps", "rollout/ep_rew_mean"]
    assert curves["env_steps"][-1] == 2048
    assert {len(curve) for curve in run.metrics(table="arrays").values()} == {8}


def test_episodes_are_columns_and_events_are_rows(run: longhaul.Run) -> None:
    episodes = run.episodes(table="arrays")
    assert len(episodes["length"]) == len(episodes["reason"]) > 10
    assert set(episodes["reason"]) == {"terminated"}
    assert episodes["length"].dtype.kind == "i"
    assert run.events() == []


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_table_is_a_data_frame_where_a_library_is_installed(
    library: Literal["pandas", "polars"],
    run: longhaul.Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / f"{library}.py").write_text("class DataFrame(dict):\n    pass\n")
    hidden = {name: None for name in ("pandas", "polars") if name != library}
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: hidden.get(name, real(name, *rest)) if name not in hidden else None,
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, library, raising=False)
    for found in (run.metrics(), run.episodes(), run.metrics(table=library)):
        assert type(found).__module__ == library
    assert type(run.metrics(table="arrays")) is dict
    sys.modules.pop(library)


def test_a_table_of_a_missing_library_is_refused(run: longhaul.Run) -> None:
    with pytest.raises(ConfigError, match="'auto', 'pandas', 'polars' or 'arrays'"):
        run.metrics(table="excel")  # type: ignore[arg-type]  # that is the point


def test_a_run_shows_itself_in_a_notebook(run: longhaul.Run) -> None:
    card = run._repr_html_()
    assert "2,048 steps" in card
    assert card.count("<polyline") == 1
    assert "<script" not in card


def test_a_run_films_and_reports_itself(run: longhaul.Run) -> None:
    pytest.importorskip("imageio_ffmpeg")
    (film,) = run.film(episode="best", gif=True)
    assert film.read_bytes().startswith(b"GIF8")
    assert "<html" in run.report().read_text("utf-8")


def test_an_unknown_metric_is_refused_with_a_suggestion(run: longhaul.Run) -> None:
    with pytest.raises(ConfigError, match="did you mean 'rollout/ep_rew_mean'"):
        run.metrics("rollout/ep_rew_maen")


def test_a_run_evaluates_itself_the_same_way_every_time(run: longhaul.Run) -> None:
    first, second = run.evaluate(episodes=3), run.evaluate(episodes=3)
    assert first.as_json() == second.as_json()


def test_evaluating_a_run_its_folder_and_its_agent_is_the_same(
    run: longhaul.Run, tmp_path: Path
) -> None:
    agent = run.agent()
    agent.save(tmp_path / "kept")
    before = run.evaluate(episodes=3, seed=5).mean
    for trained in (run, run.path, str(run.path), agent, tmp_path / "kept"):
        assert longhaul.evaluate(trained, episodes=3, seed=5).mean == before
    assert agent.config.evaluate.seed == run.config.evaluate.seed


def test_runs_are_compared(run: longhaul.Run, tmp_path: Path) -> None:
    values = {**SMALL, "learn": {"gamma": 0.9}}
    other = longhaul.train("gym:CartPole-v1", runs_root=tmp_path, quiet=True, **values)
    compared = longhaul.compare([run, other.path], out=tmp_path / "page", anyway=True)
    assert compared.page.parent == tmp_path / "page"
    assert "learn.gamma = 0.9" in compared.as_text()
    with pytest.raises(ConfigError, match="trained already"):
        longhaul.compare([run, other], seed=3)


def test_a_loaded_agent_plays_an_episode(run: longhaul.Run) -> None:
    agent = longhaul.load(run)
    env = gym.make("CartPole-v1")
    observation, _ = env.reset(seed=3)
    assert isinstance(agent.task.envs.spec.action, Discrete)
    for _ in range(5):
        action = agent.act(observation)
        assert action in (0, 1)
        observation, *_ = env.step(action)
    assert agent.act(np.zeros((3, 4), np.float32)).shape == (3,)


def test_acting_is_what_the_whole_policy_does(run: longhaul.Run) -> None:
    agent = run.agent()
    observations = np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32)
    acted = agent.policy.act({"obs": torch.from_numpy(observations)}, {}, agent.settings)
    assert agent.act(observations).tolist() == acted.action.tolist()
    assert [int(agent.act(one)) for one in observations] == acted.action.tolist()


def test_a_saved_agent_says_where_it_comes_from(run: longhaul.Run, tmp_path: Path) -> None:
    agent = run.agent()
    card = agent.save(tmp_path / "kept")
    assert card["source"] == {
        "run": run.path.name,
        "checkpoint": "step-000000002048",
        "env_steps": 2048,
    }
    again = longhaul.load(tmp_path / "kept")
    assert again.save(tmp_path / "again")["source"] == card["source"]
    observations = np.random.default_rng(1).normal(size=(50, 4))
    assert again.act(observations).tolist() == agent.act(observations).tolist()


def test_the_memory_of_each_row_is_kept_until_it_is_reset(tmp_path: Path) -> None:
    run = longhaul.train(
        "gym:CartPole-v1", runs_root=tmp_path, quiet=True, **SMALL, policy={"core": "gru"}
    )
    agent, look = run.agent(), np.ones((3, 4))
    agent.act(look)
    agent.reset([0, 2])
    norms = [part.flatten(1).norm(dim=1).tolist() for part in agent._memory.values()]
    assert all([norm > 0 for norm in found] == [False, True, False] for found in norms)
    agent.reset(np.array([False, True, False]))
    assert all(not part.any() for part in agent._memory.values())
    with pytest.raises(ConfigError, match="the agent has 3 rows"):
        agent.reset(3)


@pytest.mark.parametrize(
    ("observation", "mask", "problem"),
    [
        ([1.0, 2.0], None, "has shape \\(2,\\)"),
        ({"sight": [0.0] * 4}, None, "the observation has sight, and"),
        ([0.0] * 4, [True], "the mask has shape \\(1,\\)"),
    ],
)
def test_a_wrong_observation_is_explained(
    observation: Any, mask: Any, problem: str, run: longhaul.Run
) -> None:
    with pytest.raises(ConfigError, match=problem):
        run.agent().act(observation, mask)


def test_config_is_given_as_keywords_a_dict_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("num_envs = 3\n[learn]\ngamma = 0.9\n")
    file = resolve_config("gym:CartPole-v1", config=str(tmp_path / "mine.toml"))
    mine = {"num_envs": 3, "learn.gamma": 0.9}
    assert resolve_config("gym:CartPole-v1", config=mine) == file
    assert resolve_config("gym:CartPole-v1", num_envs=3, learn={"gamma": 0.9}) == file
    both = resolve_config("gym:CartPole-v1", config=mine, learn={"gamma": 0.8})
    assert (both.num_envs, both.learn.gamma) == (3, 0.8)


@pytest.mark.parametrize(
    ("task", "values", "problem"),
    [
        ("gym:CartPole-v1", {"lern": {"gamma": 0.9}}, "unknown config key 'lern'"),
        ("gym:CartPole-v1", {"listeners": [longhaul.RunListener]}, "not an instance of"),
        (7, {}, "7 is not a task"),
    ],
)
def test_a_mistake_raises_one_error_and_leaves_nothing_behind(
    task: Any, values: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(longhaul.LonghaulError, match=problem):
        longhaul.train(task, runs_root=tmp_path, **values)
    assert not list(tmp_path.iterdir())


SCRIPT = """
import longhaul
run = longhaul.train("gym:CartPole-v1", total_timesteps=10_000_000, session=longhaul.SessionOptions(
    as_json=True))
print("this must not be reached")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_script_after_its_run_is_saved(
    number: signal.Signals, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if '"iteration"' in line)
        process.send_signal(number)
        assert "must not be reached" not in process.stdout.read()
        assert process.wait() in (128 + number, -number)  # Python ends by the SIGINT itself
    (run,) = tmp_path.glob("runs/*/2*")
    assert list((run / "checkpoints").glob("step-*"))


def test_acting_on_one_observation_takes_less_than_60_microseconds(run: longhaul.Run) -> None:
    agent, look = run.agent(), np.zeros(4, np.float32)
    agent.act(look)
    # Of the processor's time, which other programs do not count in.
    begun = [time.process_time()]
    for _ in range(20):
        for _ in range(100):
            agent.act(look)
        begun.append(time.process_time())
    assert np.median(np.diff(begun)) / 100 < 60e-6
