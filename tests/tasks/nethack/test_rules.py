from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from longhaul.core.errors import ConfigError
from longhaul.tasks.nethack.rules import FEWEST_OPERATORS, OWN_RULES, lint, parse_rules, read_rules
from longhaul.tasks.nethack.vocabulary import ATOM_NAMES, EXPERTS

OWN = OWN_RULES.read_text(encoding="utf-8")
GRAPH = read_rules()

FAMILIES = [
    "eat",
    "quaff",
    "pray",
    "flee",
    "wait",
    "teleport",
    "wear",
    "put_on",
    "remove",
    "takeoff",
    "drop",
    "drop_multi",
    "pickup",
    "sit",
    "attack",
    "ranged_attack",
    "fire",
    "throw",
    "kick_monster",
    "wield",
    "swap_weapon",
    "enhance",
    "elbereth",
    "turn_undead",
    "move",
    "move_no_pickup",
    "move_no_fight",
    "search",
    "look",
    "whatis",
    "identify",
    "identify_trap",
    "open_door",
    "close_door",
    "unlock_door",
    "kick_door",
    "force_lock",
    "go_up",
    "go_down",
    "climb",
    "jump",
    "inventory",
    "known",
    "call_name",
    "loot",
    "untrap",
    "minetown",
    "oracle",
    "sokoban",
    "apply",
    "invoke",
    "zap",
    "rub",
    "read",
    "engrave",
    "wipe",
    "dip",
    "put_in",
    "altar",
    "offer",
    "pay",
    "extended_command",
    "toggle_autopickup",
    "avoid_contact",
    "keep_distance",
    "rest",
    "eat_corpse",
    "retreat_to_corridor",
    "hold_position",
    "approach_stairs",
    "explore",
    "collect",
    "leave_trap",
    "answer_direction",
    "continue",
    "unstick",
    "wait_out",
    "avoid_pickup",
    "be_polite",
    "avoid_attack",
    "ignore_feature",
]


def test_the_own_rules_have_no_fault() -> None:
    assert lint(GRAPH) == ()


def test_every_operator_family_of_the_game_is_there() -> None:
    assert set(FAMILIES) <= set(GRAPH.operator_names)
    assert len(GRAPH.operators) >= 76


def test_every_expert_owns_operators_by_their_full_names() -> None:
    for number, expert in enumerate(EXPERTS):
        owned = [one.name for one in GRAPH.operators if one.expert == expert]
        assert len(owned) >= FEWEST_OPERATORS
        assert [
            GRAPH.operator_names[row] for row in np.flatnonzero(GRAPH.operator_expert == number)
        ] == owned


def test_matrices_hold_what_the_rules_say() -> None:
    for row, rule in enumerate(GRAPH.rules):
        assert {ATOM_NAMES[place] for place in np.flatnonzero(GRAPH.pre[row])} == set(rule.pre)
        assert {ATOM_NAMES[place] for place in np.flatnonzero(GRAPH.forbids[row])} == set(
            rule.forbids
        )
        assert {GRAPH.effects[place] for place in np.flatnonzero(GRAPH.effect_bits[row])} == set(
            rule.effects
        )
        assert GRAPH.operators[GRAPH.rule_operator[row]].name == rule.operator


def changed(old: str, new: str) -> tuple[str, ...]:
    assert old in OWN
    return lint(parse_rules(OWN.replace(old, new, 1)))


def rule(text: str) -> tuple[str, ...]:
    return lint(parse_rules(f"{OWN}\n[[rules]]\n{text}\n"))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('operator = "eat"\npre = ["hunger_hungri"]', "did you mean 'hunger_hungry'?"),
        ('operator = "eet"\npre = ["blind"]', "there is no operator 'eet'"),
        ('operator = "eat"\npre = ["blind"]\neffects = ["joy"]', "there is no effect 'joy'"),
        ('operator = "eat"\npre = []', "needs at least one atom"),
        ('operator = "eat"\npre = ["hp_low", "hp_full"]', "hp_low and hp_full exclude"),
        ('operator = "eat"\npre = ["blind"]\nforbids = ["blind"]', "'blind' more than once"),
        ('operator = "eat"\npre = ["blind"]\nprior = 2.0', "from 0 to 1"),
        (
            'operator = "wipe"\npre = ["blind"]\n'
            'context = ["recently_hurt"]\nforbids = ["hostile_adjacent"]',
            "says the same as rule",
        ),
    ],
)
def test_a_faulty_rule_is_found(text: str, fault: str) -> None:
    assert any(fault in found for found in rule(text)), rule(text)


def test_an_operator_no_rule_reaches_is_found() -> None:
    faults = changed(
        "[operators]\n", '[operators]\nsing = { expert = "general", summary = "sing" }\n'
    )
    assert faults == ("operator sing is reached by no rule",)


def test_an_unknown_expert_or_action_is_found() -> None:
    assert "no expert 'combat!'" in changed('{ expert = "combat"', '{ expert = "combat!"')[0]
    assert "no action 'eats'" in changed('actions = ["eat"]', 'actions = ["eats"]')[0]


def test_an_atom_that_leads_nowhere_is_found() -> None:
    assert "atom dying leads to no operator" in changed('pre = ["dying"]', 'pre = ["blind"]')


def test_an_action_no_operator_takes_is_found() -> None:
    text = OWN.replace('actions = ["kick"]', "actions = []")
    assert lint(parse_rules(text)) == ("action 'kick' belongs to no operator",)


def test_the_digest_follows_the_rules_but_not_the_comments() -> None:
    assert parse_rules(f"# another remark\n{OWN}").digest == GRAPH.digest
    assert parse_rules(OWN.replace("prior = 0.8", "prior = 0.81", 1)).digest != GRAPH.digest


def test_a_file_that_cannot_be_used_is_refused_with_its_faults(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    with pytest.raises(ConfigError, match="cannot be read"):
        read_rules(path)
    path.write_text("rules = [")
    with pytest.raises(ConfigError, match=r"own\.toml: not a TOML file"):
        read_rules(path)
    path.write_text(OWN.replace('pre = ["dying"]', 'pre = ["blind"]', 1))
    with pytest.raises(ConfigError, match=r"faults \(1\):\n- atom dying"):
        read_rules(path)
