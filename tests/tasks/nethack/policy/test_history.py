from __future__ import annotations

import json
from typing import Any

import pytest

from longhaul.core.evaluation import RunLog
from longhaul.tasks.nethack.policy.history import history_records

NAMES = ("warm-up", "transition", "fine-tune")


def log() -> RunLog:
    metrics: list[dict[str, Any]] = []
    episodes: list[dict[str, Any]] = []
    for iteration in range(1, 7):
        metrics.append(
            {
                "iteration": iteration,
                "env_steps": 100 * iteration,
                "curriculum/phases_phase": float((iteration + 1) // 2),
                "policy/alpha_entropy": 1.4 - 0.2 * iteration,
                "policy/expert_weight/survival": 0.25,
                "policy/expert_weight/combat": 0.75,
                "policy/expert_share/survival": 0.1,
                "policy/expert_share/combat": 0.9,
                "train/aux_alignment": 1.0 / iteration,
                "train/grad_norm": 0.5,
            }
        )
        episodes += [
            {
                "iteration": iteration,
                "episode_return": 2.0 * iteration,
                "length": 50,
                "reason": "death",
                "metrics": {"score": 10.0 * iteration + case, "deepest_level": 1.0},
            }
            for case in range(2)
        ]
    events = [
        {
            "event": "schedule",
            "iteration": 2,
            "moves": [{"setting": "router.temperature", "new": 0.7}],
        },
        {
            "event": "schedule",
            "iteration": 4,
            "moves": [{"setting": "router.temperature_scale", "new": 0.5}],
        },
    ]
    return RunLog(
        name="made",
        metrics=metrics,
        events=events,
        settings={"router.temperature": 1.0, "learn.learning_rate": 1e-4},
        episodes=lambda: episodes,
    )


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return dict(history_records(log(), NAMES))


def test_the_log_has_the_known_keys_and_a_row_for_every_episode(made: dict[str, str]) -> None:
    found = json.loads(made["training_log.json"])
    assert found.keys() >= {
        "episode_rewards",
        "episode_lengths",
        "episode_scores",
        "best_reward",
        "best_score",
        "config",
        "monitor_metrics",
    }
    assert found["monitor_metrics"].keys() == {
        "episode_score",
        "episode_reward",
        "episode_length",
        "alpha_entropy",
        "expert_usage_variance",
        "gradient_norm",
    }
    assert all(len(column) == 12 for column in found["monitor_metrics"].values())
    assert (found["best_score"], found["best_reward"]) == (61.0, 12.0)
    assert found["monitor_metrics"]["expert_usage_variance"][0] == pytest.approx(0.0625)


def test_every_episode_tells_the_phase_and_settings_it_was_played_in(made: dict[str, str]) -> None:
    rows = json.loads(made["training_log.json"])["episodes"]
    assert [row["phase"] for row in rows[::4]] == list(NAMES)
    assert [row["temperature"] for row in rows[::2]] == [1.0, 1.0, 0.7, 0.7, 0.35, 0.35]
    assert rows[0]["end_reason"] == "death"
    assert rows[0]["learning_rate"] == 1e-4


def test_phases_are_compared_side_by_side(made: dict[str, str]) -> None:
    first, _, last = (json.loads(line) for line in made["phases.jsonl"].splitlines())
    assert (first["phase"], first["episodes"]) == ("warm-up", 4)
    assert first["scores"] == [10.0, 11.0, 20.0, 21.0]
    assert first["score_mean"] == pytest.approx((10 + 11 + 20 + 21) / 4)
    score, entropy = first["estimates"]
    assert (score["phase"], score["figure"], score["value"]) == ("warm-up", "score", 15.5)
    assert 10 < score["low"] < 15.5 < score["high"] < 21
    assert entropy["value"] == pytest.approx(1.1)
    assert (entropy["low"], entropy["high"]) == pytest.approx((1.0, 1.2))
    assert last["alignment_loss_last"] == pytest.approx(1 / 6)
    assert last["shares"] == {"survival": pytest.approx(0.1), "combat": pytest.approx(0.9)}
    table = made["phases.md"].splitlines()
    assert table[2].startswith("| warm-up | 4 | 15.5 |")
    assert len({line.count("|") for line in table}) == 1
