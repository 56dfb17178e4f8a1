"""The zoo's policies: small, honest cards, the same score again, films, and adding one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from docs.tools.zoo import LARGEST_BYTES, add_policy

import longhaul
from longhaul.app.artifacts.films import FilmRequest
from longhaul.app.artifacts.zoo import evaluate_policy, watch_policy
from longhaul.app.build.memory import machine_kind
from longhaul.app.build.sources import find_kind
from longhaul.app.evaluation.zoo import FOLDER, zoo_cards, zoo_names
from longhaul.core.errors import ConfigError
from tests.tasks.mario.cartridges import game_or_skip


@pytest.mark.parametrize("name", zoo_names())
def test_a_policy_is_small_and_its_card_says_how_to_make_it(name: str) -> None:
    card = next(card for card in zoo_cards() if card.name == name)
    files = {path.name for path in (FOLDER / name).iterdir()}
    assert files == {"policy.json", "policy.safetensors", "config.toml"}
    assert card.size <= LARGEST_BYTES
    assert card.command.startswith(f"longhaul train {card.task}")
    assert card.preset in find_kind(card.task).preset_names()
    assert card.low <= card.score <= card.high
    assert card.episodes >= 50
    assert len(card.commit) >= 7


def again(name: str) -> None:
    if name == "mario":
        game_or_skip()
    result = evaluate_policy(name)
    assert result.episodes == result.card.episodes
    if result.card.machine == machine_kind():
        assert result.score == result.card.score
        assert result.interval == (result.card.low, result.card.high)
    else:
        assert result.card.low <= result.score <= result.card.high


def test_a_policy_reaches_its_cards_score_again() -> None:
    again("cartpole")


@pytest.mark.thorough
@pytest.mark.parametrize("name", zoo_names())
def test_every_policy_reaches_its_cards_score_again(name: str) -> None:
    again(name)


def test_a_policy_loads_by_its_name_and_acts() -> None:
    agent = longhaul.load("zoo:cartpole")
    assert agent.act(np.zeros(4, np.float32)) in (0, 1)
    assert longhaul.evaluate("zoo:cartpole", episodes=2).mean == 500.0


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("zoo:cartpol", "did you mean 'cartpole'"),
        ("zoo:", "policies: acrobot"),
        ("zoo:../a", "no policy"),
    ],
)
def test_a_name_that_is_not_in_the_zoo_is_an_error(place: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        longhaul.load(place)


def test_a_film_of_a_policy_needs_no_run(tmp_path: Path) -> None:
    out = tmp_path / "pole.gif"
    first, second = watch_policy("cartpole", FilmRequest(episode="best", count=2, out=out))
    assert [film.film.path.name for film in (first, second)] == ["pole-1.gif", "pole-2.gif"]
    assert first.same
    assert second.film.path.stat().st_size > 0


def test_the_list_and_a_mistyped_name_need_no_torch() -> None:
    program = (
        "import sys; from longhaul.cli.main import app; "
        "app(sys.argv[1:], standalone_mode=False); assert 'torch' not in sys.modules"
    )

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program, "zoo", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    listed = run("list", "--json")
    assert [card["name"] for card in json.loads(listed.stdout)] == zoo_names()
    assert run("show", "cartpole").stdout.startswith("policy    zoo:cartpole")
    assert "did you mean 'cartpole'?" in run("watch", "cartpol").stderr


def test_a_runs_policy_joins_the_zoo_and_training_starts_from_one(tmp_path: Path) -> None:
    run = longhaul.train(
        "gym:CartPole-v1",
        total_timesteps=512,
        num_envs=4,
        collect={"num_steps": 64},
        start_from="zoo:cartpole",
        runs_root=tmp_path,
        quiet=True,
    )
    card = add_policy(run, "again", commit="0123456789", episodes=3, folder=tmp_path / "zoo")
    assert (card.name, card.task, card.preset) == ("again", "gym:CartPole-v1", "CartPole-v1")
    assert card.score > 400  # after two updates of a policy that reaches 500
    assert zoo_names(tmp_path / "zoo") == ["again"]
