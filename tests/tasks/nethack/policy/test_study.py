from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from longhaul.core.evaluation import Playback
from longhaul.tasks.nethack.policy.build import panels
from longhaul.tasks.nethack.policy.health import SITUATION_NAMES
from longhaul.tasks.nethack.policy.options import PolicyOptions
from longhaul.tasks.nethack.policy.study import ExpertStudy, follow
from longhaul.tasks.nethack.vocabulary import ACTION_COUNT, ACTIONS
from tests.tasks.nethack.policy.players import DECLARED, observations, player, rules


def playback(length: int, seed: int) -> Playback:
    obs = {
        name: part.unsqueeze(1).numpy() for name, part in observations(length, seed=seed).items()
    }
    rng = np.random.default_rng(seed)
    return Playback(
        number=seed,
        seed=seed,
        score=float(seed),
        reason="death",
        obs=obs,
        action=rng.integers(ACTION_COUNT, size=(length, 1)),
        value=np.zeros((length, 1), np.float32),
        reward=np.ones(length, np.float32),
    )


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    episodes = [playback(length, seed) for seed, length in enumerate((90, 130, 75))]
    return dict(ExpertStudy(rules())(player(), DECLARED, episodes))


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_an_episode_is_followed_by_the_function_that_acted() -> None:
    for options in (PolicyOptions(), PolicyOptions(core="gru", core_size=16)):
        policy, episode = player(options), playback(12, 4)
        track = follow(policy, DECLARED, episode)
        memory, found = policy.initial_state(1), []
        with torch.inference_mode():
            for step in range(12):
                seen = {name: torch.from_numpy(part[step]) for name, part in episode.obs.items()}
                act = policy.act(seen, memory, DECLARED)
                memory = act.memory
                found.append(act.shown["experts"][0])
        expected = torch.stack(found).numpy()
        np.testing.assert_allclose(track.alpha, expected, atol=1e-5)


def test_the_summary_adds_up(made: dict[str, str]) -> None:
    told = json.loads(made["specialization.json"])
    assert told["steps"] == 90 + 130 + 75
    assert sum(told["weight"].values()) == pytest.approx(1.0, abs=1e-5)
    assert sum(told["share"].values()) == pytest.approx(1.0, abs=1e-6)
    assert 0 <= told["step_entropy"] <= told["mean_entropy"] + 1e-6 <= np.log(4) + 1e-5
    assert 0 <= told["information"] <= np.log(4)
    assert set(told["dead"]) == {name for name, share in told["share"].items() if share < 0.02}


def test_every_situation_and_pair_of_experts_has_its_row(made: dict[str, str]) -> None:
    kinds = rows(made["expert-situations.jsonl"])
    assert {row["situation"] for row in kinds} <= set(SITUATION_NAMES)
    for kind in {row["situation"] for row in kinds}:
        assert sum(row["weight"] for row in kinds if row["situation"] == kind) == pytest.approx(1)
    pairs = {(row["a"], row["b"]): row["likeness"] for row in rows(made["expert-likeness.jsonl"])}
    assert all(pairs[a, b] == pytest.approx(pairs[b, a]) for a, b in pairs)
    assert all(pairs[a, b] == pytest.approx(1.0) for a, b in pairs if a == b)
    profile = rows(made["expert-actions.jsonl"])
    assert len(profile) == 4 * len(ACTIONS)


def test_steps_tell_what_was_seen_and_done(made: dict[str, str]) -> None:
    told = rows(made["steps.jsonl"])
    assert [row["step"] for row in told] == list(range(130))
    assert all(row["action"] in ACTIONS and len(row["weights"]) == 4 for row in told)


def test_operators_are_ranked_by_how_often_they_hold(made: dict[str, str]) -> None:
    held = [row["held"] for row in rows(made["operators.jsonl"])]
    assert held == sorted(held, reverse=True)
    assert held[0] > 0


def test_every_panel_of_records_reads_a_file_of_the_study(made: dict[str, str]) -> None:
    for panel in panels(("survival", "combat", "exploration", "general")):
        if panel.records.endswith(".jsonl"):
            row = rows(made[panel.records.removeprefix("evaluations/")])[0]
            assert set(panel.metrics) <= set(row)
