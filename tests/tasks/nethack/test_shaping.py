"""The shaped reward: its formula by hand, and in real games."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from longhaul.tasks.nethack.options import MaskOptions, NetHackGameOptions
from longhaul.tasks.nethack.shaping import TERMS, Happened, shaped_terms
from longhaul.tasks.nethack.source import describe
from tests.tasks.nethack.games import drawn_actions, opened

SHAPED = NetHackGameOptions(reward="shaped", mask=MaskOptions(enabled=False))
NOTHING = Happened(
    paid=0.0,
    levels=0,
    hit_points=0,
    died=False,
    steps=0,
    broke_a_rule=False,
    saw_something_new=False,
)


@pytest.mark.parametrize(
    ("happened", "expected"),
    [
        (NOTHING, (0.0, 0.3 * -0.1, 0.0, 0.1 * 0.05, 0.0)),
        (
            replace(NOTHING, paid=50.0, levels=1, steps=40, saw_something_new=True),
            (0.3 * 0.15, 0.3 * -0.1, 0.2 * -0.04, 0.1 * 0.05, 0.1 * 0.15),
        ),
        (
            replace(NOTHING, hit_points=20, steps=700, broke_a_rule=True),
            (0.0, 0.3 * -0.08, 0.2 * -0.1, 0.1 * -0.15, 0.0),
        ),
        (replace(NOTHING, hit_points=-30), (0.0, 0.3 * -0.1, 0.0, 0.1 * 0.05, 0.0)),
        (replace(NOTHING, hit_points=-31), (0.0, 0.3 * -0.2, 0.0, 0.1 * 0.05, 0.0)),
        (
            replace(NOTHING, paid=5000.0, died=True, saw_something_new=True),
            (0.3 * 1.0, 0.3 * -1000.0, 0.0, 0.1 * 0.05, 0.0),
        ),
    ],
    ids=["nothing", "a level deeper", "healed by a foul", "hurt", "badly hurt", "dead"],
)
def test_every_term_is_that_of_the_formula(happened: Happened, expected: tuple[float, ...]) -> None:
    assert shaped_terms(happened) == pytest.approx(expected, abs=1e-12)


@pytest.mark.nethack
def test_a_game_pays_the_terms_until_death_costs_its_thousand() -> None:
    """Seed 3 with these keys dies on the first level."""
    assert describe(SHAPED).terms == TERMS
    assert describe(NetHackGameOptions()).terms == ("score", "frozen")
    one = opened(SHAPED)
    paid: list[dict[str, float]] = []
    endings = []
    for ending in one.play(3, np.random.default_rng(0).integers(0, 23, 2000)):
        terms = {name: float(term[0]) for name, term in one.slots.terms.items()}
        assert one.slots.reward[0] == pytest.approx(sum(terms.values()), rel=1e-5, abs=1e-6)
        paid.append(terms)
        endings.append(ending)
    one.env.close()
    ending = endings[-1]
    assert ending is not None
    assert ending.reason == "death"
    assert ending.metrics["score"] > 0, "the score is that of the game, whatever is paid"
    assert paid[-1]["safety"] == pytest.approx(-300.0)
    assert all(terms["safety"] > -1.0 for terms in paid[1:-1])
    assert paid[-1]["exploration"] == 0.0
    assert paid[-1]["efficiency"] == pytest.approx(-0.02)
    new = [terms["exploration"] > 0 for terms in paid[1:]]
    assert any(new[:100])
    assert sum(new[:100]) > sum(new[-100:]), "what was seen before is new only once"
    fouls = [terms["feasibility"] < 0 for terms in paid[1:]]
    assert any(fouls)
    assert not all(fouls)


@pytest.mark.nethack
def test_the_same_game_pays_the_same_again() -> None:
    one = opened(SHAPED)
    first, second = (
        [one.shown()["reward"][0] for _ in one.play(17, drawn_actions(200, 5))] for _ in range(2)
    )
    one.env.close()
    assert first == second
