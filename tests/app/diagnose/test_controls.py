"""A resumed run that lacks a part of its checkpoint ends differently."""

from __future__ import annotations

import json

import pytest

from longhaul.app.diagnose.controls import Controls
from longhaul.app.diagnose.verify import Interruption, verify
from tests.app.small import CARTPOLE, small_config

LOGS = {"metrics.jsonl", "episodes.jsonl", "events.jsonl"}
ALWAYS = {
    "collector: generator of actions",
    "collector: generator of noise",
    "collector: environment 0",
    "collector: environment 1",
    "hints",
    "learner: weights",
    "learner: optimizer",
    "learner: updates",
    "learner: generator",
    "settings",
    "summary",
    *LOGS,
}
EVERYTHING = (
    "policy.core=gru",
    "policy.core_size=16",
    "learn.algorithm=vtrace",
    "collect.num_steps=16",
    "collect.chunk=8",
    "policy.normalize_observations=true",
    "policy.noisy=heads",
    "learn.normalize_reward=true",
    "learn.replay.enabled=true",
    "learn.replay.capacity=128",
    "learn.replay.batch=32",
    "learn.replay.interval=2",
)
"""Episodes have ten steps: after 16 of them, environments and memory are in the middle of one."""
NUDGE = (
    '[{kind="nudge", name="entropy", setting="learn.ent_coef", metric="train/entropy_loss",'
    " band=[-0.1, 0.0], limits=[0.001, 0.1], window=4}]"
)
COST = '[{kind="ramp", name="cost", setting="chase.step_cost", start=0.01, end=0.5}]'
"""Of every step: the rollout under way depends on the settings it began with."""
DIVERGING = (
    "learn.learning_rate=1e38",
    "learn.minibatch_size=8",
    "learn.max_bad_updates=1",
    "learn.max_bad_rollouts=1000",
)
"""Every rollout is rolled back, which the guard counts."""


def controls(task: str, *overrides: str) -> Controls:
    trial = Interruption(iterations=6, interruptions=1, controls=True)
    report = verify(small_config(task, *overrides), trial)
    assert report.equal, report.as_text()
    assert report.sound
    assert report.controls is not None
    return report.controls


def test_every_part_of_a_plain_run_is_missed() -> None:
    found = controls(CARTPOLE, "total_iterations=8", f"schedule={NUDGE}")
    assert {*ALWAYS, "schedule: entropy"} <= set(found.parts("different")), found.as_text()
    assert not found.parts("the same")
    assert "learner: normalizer" in found.parts("nothing in it")


def test_memory_statistics_noise_and_replay_are_missed() -> None:
    found = controls("probe:recall", *EVERYTHING)
    used = {
        *ALWAYS,
        "collector: memory of the policy",
        "learner: normalizer",
        "learner: rewards",
        "replay: generator",
        "replay: counts",
        "replay: priorities",
        "replay: sequences",
    }
    assert used <= set(found.parts("different")), found.as_text()
    assert not found.parts("the same")


@pytest.mark.thorough
def test_environments_in_workers_are_missed() -> None:
    found = controls(CARTPOLE, "env.runtime=processes", "env.processes.workers=2")
    assert set(found.parts("different")) >= ALWAYS, found.as_text()


def test_a_part_whose_loss_changes_nothing_is_reported() -> None:
    # The settings of the rollout under way differ in the learning rate, which acting never reads.
    found = controls("probe:recall", *EVERYTHING, "collect.overlap=true")
    assert found.parts("the same") == ("collector: settings that act",), found.as_text()
    assert "nothing depended on collector: settings that act" in found.as_text()
    assert "collector: weights that act" in found.parts("different")


def test_the_settings_that_act_are_missed_where_rewards_depend_on_them() -> None:
    found = controls("probe:chase", *EVERYTHING, "collect.overlap=true", f"schedule={COST}")
    assert "collector: settings that act" in found.parts("different"), found.as_text()
    # Priorities of the replay matter in the run above.
    assert found.parts("the same") == ("replay: priorities",), found.as_text()


def test_the_counts_of_the_guard_are_missed_where_updates_failed() -> None:
    found = controls(CARTPOLE, *DIVERGING)
    assert "learner: guard" in found.parts("different"), found.as_text()


@pytest.mark.thorough
def test_the_parts_of_a_batched_task_are_missed() -> None:
    trial = Interruption(iterations=4, interruptions=1, controls=True)
    report = verify(small_config("fish", "num_envs=2"), trial)
    assert report.equal
    values = json.loads(report.as_json())["left_out"]
    assert values["collector: environment 1"] == "different"
    assert values["metrics.jsonl"] == "different"
