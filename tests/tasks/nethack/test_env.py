from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from longhaul.core.errors import EnvError
from longhaul.core.settings import Settings
from longhaul.core.spaces import Discrete, Tier
from longhaul.tasks.nethack.observation.numbers import HISTORY
from longhaul.tasks.nethack.options import TRAINING_CAP, NetHackGameOptions
from longhaul.tasks.nethack.source import describe
from longhaul.tasks.nethack.vocabulary import ACTIONS
from tests.tasks.nethack.games import Opened, drawn_actions, opened

pytestmark = pytest.mark.nethack


@pytest.fixture(scope="module")
def game() -> Iterator[Opened]:
    one = opened()
    yield one
    one.env.close()


def test_a_game_has_23_actions_in_the_order_of_the_task() -> None:
    from nle import nethack
    from nle.env.tasks import TASK_ACTIONS

    assert describe(NetHackGameOptions()).action == Discrete(23, ACTIONS)
    keys = dict(zip(ACTIONS, TASK_ACTIONS, strict=True))
    assert keys["more"] == nethack.MiscAction.MORE
    assert keys["northwest"] == nethack.CompassDirection.NW
    assert keys["run southeast"] == nethack.CompassDirectionLonger.SE
    assert keys["up"] == nethack.MiscDirection.UP
    assert keys["down"] == nethack.MiscDirection.DOWN
    assert keys["wait"] == nethack.MiscDirection.WAIT
    assert keys["kick"] == nethack.Command.KICK
    assert keys["eat"] == nethack.Command.EAT
    assert keys["search"] == nethack.Command.SEARCH


@pytest.mark.parametrize("seed", [3, 11])
def test_a_game_goes_as_in_nles_own_environment(game: Opened, seed: int) -> None:
    from nle.env.tasks import NetHackScore

    from longhaul.tasks.nethack.game import KEYS, game_seeds

    theirs = NetHackScore(observation_keys=KEYS, fix_moon_phase=True)
    theirs.seed(*game_seeds(seed), reseed=False)
    shown, _ = theirs.reset()
    actions = drawn_actions(700, seed)
    screen = None
    for step, ending in enumerate(game.play(seed, actions)):
        if step:
            shown, reward, over, _, _ = theirs.step(int(actions[step - 1]))
            assert game.slots.reward[0] == pytest.approx(reward)
            assert over == (ending is not None and ending.reason == "death")
        screen = game.env._game.screen  # type: ignore[attr-defined]
        for key, ours in zip(KEYS, screen, strict=True):
            assert np.array_equal(shown[key], ours), (step, key)
    theirs.close()


def test_the_same_seed_and_actions_give_the_same_game(game: Opened) -> None:
    actions = drawn_actions(1000, 5)
    other = opened()
    for ending, again in zip(game.play(17, actions), other.play(17, actions), strict=True):
        assert ending == again
        ours, theirs = game.shown(), other.shown()
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    other.env.close()


def test_another_seed_gives_another_game(game: Opened) -> None:
    first = [game.shown()["state"] for _ in game.play(1, drawn_actions(20, 5))]
    second = [game.shown()["state"] for _ in game.play(2, drawn_actions(20, 5))]
    assert not all(map(np.array_equal, first, second))


def test_a_game_that_was_played_before_leaves_no_trace(game: Opened) -> None:
    actions = drawn_actions(60, 8)
    fresh = [game.shown() for _ in game.play(23, actions)]
    for _ in game.play(24, drawn_actions(200, 9)):
        pass
    again = [game.shown() for _ in game.play(23, actions)]
    assert all(
        np.array_equal(before[name], after[name])
        for before, after in zip(fresh, again, strict=True)
        for name in before
    )


def test_a_death_keeps_the_score_of_the_last_living_moment(game: Opened) -> None:
    """Seed 3 with these keys dies on the first level."""
    actions = np.random.default_rng(0).integers(0, 23, 2000)
    score, ending = 0.0, None
    for ending in game.play(3, actions):
        if ending is None:
            score = float(game.env._game.screen.status[9])  # type: ignore[attr-defined]
    assert ending is not None
    assert ending.reason == "death"
    assert ending.metrics["score"] == score
    assert game.env._game.screen.status[9] == 0  # type: ignore[attr-defined]
    assert game.slots.terminated[0]
    assert not game.slots.truncated[0]


def test_a_game_that_reaches_the_cap_is_cut_not_ended() -> None:
    one = opened(NetHackGameOptions(max_steps=30))
    endings = list(one.play(4, drawn_actions(100, 4)))
    assert len(endings) == 31
    assert endings[-1] is not None
    assert endings[-1].reason == "cap"
    assert endings[-1].metrics["step_cap"] == 30
    assert one.slots.truncated[0]
    assert not one.slots.terminated[0]
    one.env.close()


def test_the_training_cap_counts_from_the_next_game_on_and_for_training_only() -> None:
    options = NetHackGameOptions(max_steps=50)
    training, measured = opened(options), opened(options, follows_settings=False)
    shorter = Settings([replace(TRAINING_CAP, default=20)])
    lengths = {}
    for name, one in (("training", training), ("measured", measured)):
        played = one.play(4, drawn_actions(100, 4))
        next(played)
        one.env.configure(shorter)
        present, following = [*played][-1], [*one.play(4, drawn_actions(100, 4))]
        assert present is not None
        assert following[-1] is not None
        lengths[name] = (present.metrics["step_cap"], following[-1].metrics["step_cap"])
        assert following[-1].reason == "cap"
        assert len(following) == following[-1].metrics["step_cap"] + 1
        # Cut, not ended: learners add the value of what was seen last.
        assert one.slots.truncated[0]
        assert not one.slots.terminated[0]
        one.env.close()
    assert lengths == {"training": (50.0, 20.0), "measured": (50.0, 50.0)}


def test_the_share_of_the_cap_that_is_used_up_is_seen() -> None:
    found = []
    for cap in (20, 40):
        one = opened(NetHackGameOptions(max_steps=40))
        one.env.configure(Settings([replace(TRAINING_CAP, default=cap)]))
        seen = [one.shown()["state"] for _ in one.play(4, drawn_actions(10, 4))]
        found.append(seen[-1][HISTORY + 8])
        one.env.close()
    assert found == [pytest.approx(10 / 20), pytest.approx(10 / 40)]


def test_the_terms_add_up_to_the_reward(game: Opened) -> None:
    frozen = 0
    for _ in game.play(6, drawn_actions(150, 6)):
        parts = sum(float(term[0]) for term in game.slots.terms.values())
        assert game.slots.reward[0] == pytest.approx(parts, abs=1e-6)
        frozen += game.slots.terms["frozen"][0] < 0
    assert frozen > 0


def test_cap_rules_and_layout_are_part_of_the_identity() -> None:
    assert describe(NetHackGameOptions()).tier is Tier.REPLAY
    assert "cap 2000" in describe(NetHackGameOptions()).id
    assert describe(NetHackGameOptions()).id != describe(NetHackGameOptions(max_steps=500)).id


def test_a_hard_start_is_refused(game: Opened) -> None:
    with pytest.raises(EnvError, match="no hard starts"):
        game.env.reset(1, ("somewhere",))
