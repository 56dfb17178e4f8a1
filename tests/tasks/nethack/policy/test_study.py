from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from longhaul.core.evaluation import Playback
from longhaul.tasks.nethack.policy.health import SITUATION_NAMES
from longhaul.tasks.nethack.policy.history import PHASES_FILE
from longhaul.tasks.nethack.policy.moments import key_moments
from longhaul.tasks.nethack.policy.options import PolicyOptions
from longhaul.tasks.nethack.policy.panels import panels
from longhaul.tasks.nethack.policy.study import ExpertStudy, projection
from longhaul.tasks.nethack.policy.track import follow
from longhaul.tasks.nethack.vocabulary import ACTION_COUNT, ACTIONS, ATOM_NAMES
from tests.tasks.nethack.policy.players import DECLARED, observations, player, rules

NAMES = ("survival", "combat", "exploration", "general")


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
    files = ExpertStudy(rules())(player(), DECLARED, episodes)
    return {name: content for name, content in files.items() if isinstance(content, str)}


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
    for row in told:
        assert list(row["chances"]) == list(ACTIONS)
        assert sum(row["chances"].values()) == pytest.approx(1.0, abs=1e-3)


def test_chances_are_those_under_the_mask() -> None:
    episode = playback(6, 4)
    mask = np.zeros((6, 1, ACTION_COUNT), np.bool_)
    mask[:, :, [2, 5]] = True
    free, held = (
        follow(player(), DECLARED, one).chances for one in (episode, replace(episode, mask=mask))
    )
    assert (free > 0).all()
    assert (held[:, [2, 5]] > 0).all()
    np.testing.assert_allclose(held[:, [2, 5]].sum(1), 1.0, atol=1e-6)


def test_a_projection_keeps_what_varies_most() -> None:
    rng = np.random.default_rng(3)
    wide, narrow = rng.normal(0, 5, 300), rng.normal(0, 1, 300)
    points = np.zeros((300, 6), np.float32)
    points[:, 4], points[:, 1] = wide, narrow
    points[:, 0] = rng.normal(0, 0.01, 300)
    found = projection(points)
    assert abs(np.corrcoef(found[:, 0], wide)[0, 1]) > 0.99
    assert abs(np.corrcoef(found[:, 1], narrow)[0, 1]) > 0.99
    assert abs(np.corrcoef(found[:, 0], found[:, 1])[0, 1]) < 1e-3
    np.testing.assert_array_equal(found, projection(points))


def test_all_experts_are_projected_for_the_same_states(made: dict[str, str]) -> None:
    outputs, intents = rows(made["expert-outputs.jsonl"]), rows(made["intents.jsonl"])
    assert len(intents) == 90 + 130 + 75
    assert len(outputs) == 4 * len(intents)
    assert {row["expert"] for row in outputs[:4]} == set(NAMES)
    assert [row["situation"] for row in outputs[::4]] == [row["situation"] for row in intents]


def test_moments_have_a_picture_and_what_the_graph_attended_to() -> None:
    policy = player()
    asked: list[int] = []

    def pictures(steps: Collection[int]) -> dict[int, bytes]:
        asked.extend(steps)
        return {step: b"png" for step in steps if step != asked[0]}

    track = follow(policy, DECLARED, replace(playback(60, 2), pictures=pictures))
    files = dict(key_moments(track, policy, rules()))
    found = rows(str(files.pop("moments.jsonl")))
    assert [row["step"] for row in found] == sorted(set(track.alpha.argmax(0).tolist()))
    assert found[0]["picture"] == "", "what cannot be drawn is missing"
    assert [row["picture"] for row in found[1:]] == [f"evaluations/{name}" for name in files]
    for row in found:
        ends = {end["name"] for end in row["ends"]}
        there = {name for name, on in zip(ATOM_NAMES, track.atoms[row["step"]], strict=True) if on}
        assert len(ends) == 8
        assert {link["to"] for link in row["links"]} <= ends
        assert {link["from"] for link in row["links"]} <= there
        assert 0 < sum(link["weight"] for link in row["links"]) < 1
        shares = [end["share"] for end in row["ends"]]
        assert shares == sorted(shares, reverse=True)


def test_operators_are_ranked_by_how_often_they_hold(made: dict[str, str]) -> None:
    held = [row["held"] for row in rows(made["operators.jsonl"])]
    assert held == sorted(held, reverse=True)
    assert held[0] > 0


def test_every_panel_of_records_reads_a_file_of_the_study(made: dict[str, str]) -> None:
    for panel in panels(NAMES):
        if panel.records.endswith(".jsonl") and not panel.records.endswith(PHASES_FILE):
            row = rows(made[panel.records.removeprefix("evaluations/")])[0]
            assert set(panel.metrics) <= set(row)
