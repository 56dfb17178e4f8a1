"""Real short runs made to misbehave say so, in words that name the setting to change."""

from __future__ import annotations

import importlib.metadata
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from longhaul.app.build.components import build_task
from longhaul.app.build.hints import build_hints, most_entropy, run_facts
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.app.diagnose.verify import Interruption, verify
from longhaul.app.evaluation.load import Run
from longhaul.app.inspect.replay import replay_hints
from longhaul.core.control import Progress
from longhaul.core.errors import ConfigError
from longhaul.core.hint import Finding, Recent
from longhaul.core.spaces import Continuous, Discrete, MultiDiscrete
from longhaul.runs.directory import RunDirectory
from longhaul.runs.logs.jsonl import read_rows
from tests.app import sick
from tests.app.small import finished_run, small_config

sick.register()
TALKATIVE = (
    "hints.rules.updates-too-large.window=2",
    "hints.rules.updates-too-large.most_clipped=-1",
    "hints.rules.updates-too-large.cooldown=1",
)


def said(run: RunDirectory) -> dict[str, dict[str, Any]]:
    """Return the first hint of every rule that spoke in a run."""
    rows = (*read_rows(run.events).rows, *read_rows(run.sessions).rows)
    return {row["rule"]: row for row in reversed(rows) if row["event"] == "hint"}


def check_replay(run: RunDirectory) -> None:
    """Assert that the records say what was said while the run went on."""
    replayed = replay_hints(Run(run))
    assert replayed.differences == []
    assert {hint.rule for _, hint in replayed.hints} == set(said(run))


def test_a_learning_rate_a_hundred_times_too_high_is_noticed(tmp_path: Path) -> None:
    run = finished_run(
        tmp_path, "schedule=[]", "learn.learning_rate=0.1", "learn.n_epochs=4", "num_envs=4",
        "learn.minibatch_size=64", "collect.num_steps=64", "policy.hidden=[32]",
        "total_timesteps=3072",
    )  # fmt: skip
    hint = said(run)["updates-too-large"]
    assert hint["setting"] == "learn.learning_rate"
    assert hint["value"] < 0.06
    assert "learn.learning_rate from 0.1 to" in hint["text"]
    check_replay(run)


def test_an_environment_that_never_ends_is_noticed(tmp_path: Path) -> None:
    run = finished_run(
        tmp_path, "collect.num_steps=128", "total_timesteps=7000", task="gym:Sick/Endless-v0"
    )
    hint = said(run)["episodes-never-end"]
    assert hint["iteration"] == 20
    assert hint["setting"] == "options.max_episode_steps"
    assert "2,560 steps without an episode's end; none ever has" in hint["text"]
    check_replay(run)


def test_one_environment_that_is_fifty_times_slower_is_noticed(tmp_path: Path) -> None:
    run = finished_run(
        tmp_path, "num_envs=4", "collect.num_steps=52", "total_timesteps=4160",
        "env.runtime=serial",
        task="gym:Sick/OneSlow-v0",
    )  # fmt: skip
    hint = said(run)["one-env-slow"]
    assert hint["setting"] == "env.order"
    assert "time" in hint, "what depends on a clock is in the sessions"
    check_replay(run)


SIGN = (
    "num_envs=8", "collect.num_steps=64", "learn.n_epochs=4", "learn.minibatch_size=128",
    "learn.learning_rate=0.003", "policy.hidden=[32]",
)  # fmt: skip


def test_a_reward_of_the_wrong_sign_is_noticed(tmp_path: Path) -> None:
    run = finished_run(
        tmp_path, *SIGN, "total_timesteps=36000", "hints.rules.returns-flat.window=20",
        task="gym:Sick/WrongSign-v0",
    )  # fmt: skip
    hints = said(run)
    assert "sign is wrong" in hints["ending-pays"]["text"]
    assert "475 counts as solved" in hints["returns-flat"]["text"]
    check_replay(run)


@pytest.mark.slow
def test_a_reward_of_the_wrong_sign_is_noticed_with_the_usual_thresholds(tmp_path: Path) -> None:
    run = finished_run(tmp_path, *SIGN, "total_timesteps=100000", task="gym:Sick/WrongSign-v0")
    assert {"ending-pays", "returns-flat"} <= set(said(run))
    check_replay(run)


@pytest.mark.slow
def test_a_run_that_learns_says_nothing(tmp_path: Path) -> None:
    run = finished_run(
        tmp_path, "num_envs=16", "collect.num_steps=128", "learn.n_epochs=10",
        "policy.hidden=[64,64]",
        "total_timesteps=200000", "learn.minibatch_size=256", "env.check_seeds=true",
    )  # fmt: skip
    steady = {row["rule"] for row in read_rows(run.events).rows if row["event"] == "hint"}
    assert steady == set()


def test_hints_are_the_same_after_every_interruption() -> None:
    config = small_config("gym:CartPole-v1", *TALKATIVE)
    result = verify(config, Interruption(iterations=8, interruptions=3))
    assert result.equal, result.as_text()


def test_hints_get_into_the_events_of_a_run(tmp_path: Path) -> None:
    run = finished_run(tmp_path, *TALKATIVE, "total_timesteps=256")
    rows = [row for row in read_rows(run.events).rows if row["event"] == "hint"]
    assert [row["iteration"] for row in rows] == [2, 3, 5]
    assert rows[1]["text"].startswith("Still: ")


def test_switched_off_a_run_says_nothing(tmp_path: Path) -> None:
    run = finished_run(tmp_path, *TALKATIVE, "hints.enabled=false")
    assert said(run) == {}
    assert replay_hints(Run(run)).hints == ()
    assert "no hints" in replay_hints(Run(run)).as_text()


def test_what_the_records_say_and_the_run_did_not_is_told(tmp_path: Path) -> None:
    run = finished_run(tmp_path, *TALKATIVE)
    kept = [line for line in run.events.read_text().splitlines() if '"hint"' not in line]
    run.events.write_text("".join(f"{line}\n" for line in kept))
    replayed = replay_hints(Run(run))
    assert replayed.differences == [
        "not given during the run: updates-too-large at 2, updates-too-large at 3"
    ]
    assert "iteration 2, 64 steps: updates-too-large" in replayed.as_text()
    shown = json.loads(replayed.as_json())
    assert [hint["iteration"] for hint in shown["hints"]] == [2, 3]


@pytest.mark.parametrize(
    ("action", "most"),
    [
        (Discrete(4), 1.3863),
        (MultiDiscrete((2, 4)), 2.0794),
        (Continuous((-1.0,), (1.0,)), 0.0),
    ],
)
def test_the_most_entropy_of_an_action_is_that_of_chance(action: Any, most: float) -> None:
    assert most_entropy(action) == pytest.approx(most, abs=1e-4)


@dataclass(frozen=True)
class Loud:
    """A rule of a plugin."""

    name: str = "loud"
    window: int = 1
    cooldown: int = 1000
    timed: bool = False
    reads: tuple[str, ...] = ("rollout/*",)

    def judge(self, recent: Recent) -> Finding | None:
        return Finding("It is loud.", "It always is.", "Turn it down.")


LOUD = Loud()
NO_RULE = "not a rule"


def offer(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Pretend that an installed package offers a rule."""
    found = importlib.metadata.entry_points

    def entry_points(**wanted: str) -> Any:
        if wanted.get("group") == "longhaul.hints":
            return [importlib.metadata.EntryPoint("loud", value, "longhaul.hints")]
        return found(**wanted)

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)


def test_a_plugin_brings_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "tests.app.build.test_hints:LOUD")
    run = finished_run(tmp_path)
    assert said(run)["loud"]["text"] == "It is loud. It always is. Turn it down."


def test_a_plugin_that_offers_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "tests.app.build.test_hints:NO_RULE")
    config = small_config()
    with pytest.raises(ConfigError, match="'not a rule' as a hint rule"):
        build_hints(config, build_task(config), "cpu")


@pytest.mark.parametrize(
    ("task", "sets"),
    [("gym:CartPole-v1", "[[schedule]]"), ("nethack", "options.phases"), ("probe:recall", None)],
)
def test_advice_names_what_else_sets_a_key(task: str, sets: str | None) -> None:
    if task == "nethack":
        pytest.importorskip("nle")
    overrides = ("schedule=[]",) if sets is None else ()
    config = resolve(ConfigSources(task, overrides=overrides))
    facts = run_facts(config, build_task(config), "cpu")
    shown = Recent(Progress(1), 1, facts).setting("learn.learning_rate")
    assert shown == "learn.learning_rate" + (f" (which {sets} sets)" if sets else "")
