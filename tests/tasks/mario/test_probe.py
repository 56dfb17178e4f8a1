"""Which action moves Mario forward."""

from __future__ import annotations

import pytest

from longhaul.core.errors import ConfigError
from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.game.options import GameOptions
from longhaul.tasks.mario.options import MarioOptions
from longhaul.tasks.mario.source import probe_actions, run_probe, with_forward_action


def test_running_right_is_farthest_and_doing_nothing_moves_nobody(cartridge: Cartridge) -> None:
    found = probe_actions(GameOptions(actions="complex"), cartridge)
    assert len(found) == 12
    assert found[0].name in ("RIGHT+B", "RIGHT+A+B")
    assert next(one.distance for one in found if one.name == "NOOP") == 0
    assert next(one.distance for one in found if one.name == "LEFT") == 0
    assert found == probe_actions(GameOptions(actions="complex", sticky=0.9), cartridge)


def test_forward_in_a_script_is_the_action_that_was_found(cartridge: Cartridge) -> None:
    options = with_forward_action(GameOptions(script="NOOP:2,forward:30"), cartridge)
    assert options.script == f"NOOP:2,{probe_actions(GameOptions(), cartridge)[0].name}:30"


def test_a_script_without_forward_needs_no_probe(cartridge: Cartridge) -> None:
    options = GameOptions(script="RIGHT:3")
    assert with_forward_action(options, cartridge) is options


def test_a_script_nobody_can_play_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="there is no button 'JUMP'"):
        MarioOptions(script="FORWARD:3,JUMP")


def test_more_than_a_set_and_a_stage_is_refused() -> None:
    with pytest.raises(ConfigError, match="probe takes"):
        run_probe(["simple", "1-1", "now"])
