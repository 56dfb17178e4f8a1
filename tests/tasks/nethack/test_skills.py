from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from longhaul.core.env import Env, StepBuffers
from longhaul.core.errors import ConfigError
from longhaul.core.spaces import DURATION
from longhaul.runs.reader import read_metrics
from longhaul.tasks.nethack.options import NetHackGameOptions
from longhaul.tasks.nethack.rule_order import CLOSED, UNWANTED, RuleOrder
from longhaul.tasks.nethack.rules import lint, read_rules
from longhaul.tasks.nethack.skills import SKILL_NAMES, SKILL_RULES, skills_of
from longhaul.tasks.nethack.source import NetHackFactory, describe, rules_of
from longhaul.tasks.nethack.vocabulary import ATOM_BITS, ATOM_INDEX, SKILL_ATOM_NAMES
from tests.app.small import finished_run
from tests.tasks.nethack.games import opened

pytestmark = pytest.mark.nethack

SKILLS = NetHackGameOptions(play="skills", max_steps=300)


def played(env: Env, slots: StepBuffers, seed: int, draw: np.random.Generator) -> list[object]:
    """Play a game by skills that are drawn; return what was seen and done."""
    env.reset(seed, None)
    seen: list[object] = []
    while True:
        assert slots.mask is not None
        skill = int(draw.choice(np.flatnonzero(slots.mask[0])))
        ending = env.step(np.array([skill]))
        shown = tuple(part.tobytes() for part in slots.obs.values())
        seen.append((skill, float(slots.reward[0]), float(slots.measures[DURATION][0]), *shown))
        if ending is not None:
            return [*seen, ending]


@pytest.mark.parametrize("actions", ["score", "extended"])
def test_the_same_seed_and_skills_give_the_same_game(actions: str) -> None:
    options = replace(SKILLS, actions=actions)  # type: ignore[arg-type]
    games: list[list[object]] = []
    for _ in range(2):
        game = opened(options)
        # A game that was played before leaves no trace.
        played(game.env, game.slots, 5, np.random.default_rng(len(games)))
        games.append(played(game.env, game.slots, 9, np.random.default_rng(3)))
        game.env.close()
    assert games[0] == games[1]


def test_a_skill_goes_on_for_several_steps_which_the_cap_counts() -> None:
    game = opened(SKILLS)
    order, total, decisions = RuleOrder(rules_of("", "skills")), 0.0, 0
    game.env.reset(2, None)
    ending = None
    while ending is None:
        assert game.slots.mask is not None
        choice = order.choose(game.slots.obs[ATOM_BITS], game.slots.mask)
        ending = game.env.step(choice)
        total += float(game.slots.measures[DURATION][0])
        decisions += 1
    assert decisions < total <= SKILLS.max_steps
    assert (ending.reason == "cap") == (total == SKILLS.max_steps)
    game.env.close()


def test_a_skill_that_does_not_apply_lets_a_turn_pass() -> None:
    game = opened(SKILLS)
    game.env.reset(2, None)
    assert game.slots.mask is not None
    closed = int(np.flatnonzero(~game.slots.mask[0])[0])
    game.env.step(np.array([closed]))
    assert game.slots.measures[DURATION][0] >= 1
    game.env.close()


def test_the_extended_set_has_skills_that_the_other_has_not() -> None:
    more = {one.name for one in skills_of("extended")} - {one.name for one in skills_of("score")}
    assert more == {"pray", "quaff"}
    score, extended = describe(SKILLS), describe(replace(SKILLS, actions="extended"))
    assert score.id != extended.id
    assert extended.choices == score.choices + 2


def test_rules_of_keys_and_of_skills_are_not_mixed_up() -> None:
    with pytest.raises(ConfigError, match=r"holds rules of skills, but options.play = 'keys'"):
        rules_of(str(SKILL_RULES), "keys")


def test_the_rules_of_skills_have_no_faults() -> None:
    graph = read_rules(SKILL_RULES)
    assert lint(graph) == ()
    assert graph.operator_names == SKILL_NAMES
    assert graph.pre.shape[1] == len(SKILL_ATOM_NAMES) <= 128


def test_a_missing_skill_is_a_fault() -> None:
    graph = read_rules(SKILL_RULES)
    short = replace(graph, operators=graph.operators[:-1], rules=graph.rules[:2])
    assert any("the operators must be the skills" in fault for fault in lint(short))


def test_shuffled_rules_have_the_same_conditions_and_other_operators() -> None:
    graph = read_rules(SKILL_RULES)
    other = graph.shuffled(1)
    assert np.array_equal(other.pre, graph.pre)
    assert sorted(np.bincount(other.rule_operator)) == sorted(np.bincount(graph.rule_operator))
    assert not np.array_equal(other.rule_operator, graph.rule_operator)


def test_the_rules_order_takes_the_highest_rule_that_holds() -> None:
    order = RuleOrder(read_rules(SKILL_RULES))
    atoms = np.zeros((2, len(SKILL_ATOM_NAMES)), np.uint8)
    atoms[:, ATOM_INDEX["prey_adjacent"]] = 1
    atoms[:, ATOM_INDEX["frontier_reachable"]] = 1
    mask = np.ones((2, len(SKILL_NAMES)), np.bool_)
    mask[1, SKILL_NAMES.index("fight")] = False
    assert [SKILL_NAMES[skill] for skill in order.choose(atoms, mask)] == ["fight", "explore"]
    scores = order.scores(atoms, mask)
    assert scores[1, SKILL_NAMES.index("fight")] == CLOSED
    assert scores[0, SKILL_NAMES.index("eat")] == UNWANTED
    without = RuleOrder(read_rules(SKILL_RULES), without=("fight",))
    assert SKILL_NAMES[int(without.choose(atoms, mask)[0])] == "explore"


def test_native_and_plain_scores_of_the_rules_agree() -> None:
    env = NetHackFactory(SKILLS)()
    slots = StepBuffers.allocate(env.spec, 1)
    env.bind(slots)
    order, draw = RuleOrder(rules_of("", "skills")), np.random.default_rng(0)
    env.reset(4, None)
    for _ in range(60):
        assert slots.mask is not None
        mask = slots.mask
        native = env._scratch.wants[: mask.shape[1]]  # type: ignore[attr-defined]
        own = order.scores(slots.obs[ATOM_BITS], np.ones_like(mask))[0]
        # What the env adds after the last look: whether the skill was interrupted.
        wait = SKILL_NAMES.index("wait")
        assert np.allclose(np.delete(native, wait), np.delete(own, wait))
        if env.step(np.array([draw.choice(np.flatnonzero(mask[0]))])) is not None:
            break
    env.close()


def test_a_rollout_of_skills_says_how_many_steps_of_the_game_it_holds(tmp_path: Path) -> None:
    shape = ("options.network=plain", "options.play=skills", "options.max_steps=100")
    run = finished_run(tmp_path, *shape, "env.runtime=serial", task="nethack")
    for row in read_metrics(run).rows:
        assert row["env/game_steps"] == pytest.approx(32 * float(str(row["env/skill_steps"])))
        assert float(str(row["env/skill_steps"])) >= 1
