from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from longhaul.core.evaluation import Case
from longhaul.tasks.nethack.evaluation import evaluation_metrics, intervals, suites
from longhaul.tasks.nethack.options import NetHackGameOptions, NetHackOptions
from longhaul.tasks.nethack.players import EXPLORER, RANDOM, Explorer, play_cases, play_references

pytestmark = pytest.mark.nethack


def test_references_play_every_case_under_the_cap() -> None:
    cases = (Case(3), Case(4))
    played = play_references(NetHackGameOptions(max_steps=60), cases)
    assert set(played) == {RANDOM, EXPLORER}
    for games in played.values():
        assert [game.seed for game in games] == [3, 4]
        assert evaluation_metrics(games)["eval/step_cap"] == 60
    assert played == play_references(NetHackGameOptions(max_steps=60), cases)


def test_the_explorer_goes_down_the_stairs_it_finds() -> None:
    games = play_cases(
        NetHackGameOptions(max_steps=600),
        [Case(seed) for seed in range(6)],
        Explorer(np.random.default_rng(1)),
    )
    assert max(game.metrics["deepest_level"] for game in games) >= 2


@pytest.mark.slow
def test_the_anchors_are_where_they_were_measured(
    record_property: Callable[[str, object], None],
) -> None:
    """200 held-out games at cap 2000: random 30 +- 10; the script far above it."""
    played = suites(NetHackOptions())("held-out").references()
    for player in (RANDOM, EXPLORER):
        score = evaluation_metrics(played[player])["eval/score"]
        record_property(f"score of {player}", f"{score:.1f}")
    assert evaluation_metrics(played[RANDOM])["eval/score"] == pytest.approx(30, abs=10)
    assert intervals(played[EXPLORER])["eval/score"][0] > intervals(played[RANDOM])["eval/score"][1]
