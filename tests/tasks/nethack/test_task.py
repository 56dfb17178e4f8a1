from __future__ import annotations

import json
import subprocess
import sys

import pytest

from longhaul.app.build.components import build_task
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.core.env import Episode, SingleEnvs
from longhaul.core.errors import ConfigError
from longhaul.core.evaluation import RunLog
from longhaul.core.task import Task
from longhaul.nets.actor_critic import ActorCritic
from longhaul.tasks.nethack.options import MapOptions, NetHackGameOptions
from longhaul.tasks.nethack.policy.network import ExpertPolicy
from longhaul.tasks.nethack.rules import RULES_FILE, rule_records
from longhaul.tasks.nethack.source import describe, rules_of
from longhaul.tasks.nethack.task import summarize
from longhaul.tasks.nethack.vocabulary import CROP, MESSAGE, PACK, STATE


def task_of(*overrides: str) -> Task:
    return build_task(resolve(ConfigSources(task="nethack", overrides=list(overrides))))


def test_experts_play_unless_a_plain_network_is_asked_for() -> None:
    assert isinstance(task_of().make_policy(), ExpertPolicy)
    assert isinstance(task_of("options.network=plain").make_policy(), ActorCritic)


def test_games_run_in_processes_of_their_own_and_compile_ahead() -> None:
    envs = task_of().envs
    assert isinstance(envs, SingleEnvs)
    assert envs.prefers_processes
    assert envs.compiles


def test_a_worker_needs_no_torch_to_play() -> None:
    """It would cost every worker seconds and hundreds of megabytes."""
    code = "import sys; from longhaul.tasks.nethack.source import NetHackFactory; "
    code += "assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_map_is_seen_only_if_asked_for() -> None:
    assert CROP not in describe(NetHackGameOptions()).observation
    seen = describe(NetHackGameOptions(map=MapOptions(view=True, size=11))).observation
    assert seen[CROP].shape == (11, 11)
    assert {MESSAGE, PACK, STATE} <= seen.keys()


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("options.max_steps=0", "options.max_steps = 0 must be at least 1"),
        ("options.max_steps=200000", "at most 100000"),
        ("options.skill_steps=0", "at least 1"),
        ("options.actions=all", "score"),
        ("options.character=monk", "mon-hum-neu-mal"),
        ("options.map.size=8", "must be odd"),
        ("options.frozen_penalty=-1.0", "must be at least 0"),
        ("options.eval_episodes=0", "at least 1"),
        ("options.max_stepz=3", "did you mean 'options.max_steps'"),
    ],
)
def test_options_that_make_no_sense_are_refused(override: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        task_of(override)


def test_an_argument_is_refused() -> None:
    with pytest.raises(ConfigError, match="takes no argument"):
        build_task(resolve(ConfigSources(task="nethack:valkyrie")))


def test_a_rollout_is_summed_up_by_score_depth_and_cap() -> None:
    metrics = {"score": 40.0, "deepest_level": 2.0, "turns": 500.0, "step_cap": 2000.0}
    games = [
        Episode(0, 0, 1, 900, 40.0, "death", metrics),
        Episode(1, 0, 2, 2000, 10.0, "cap", {**metrics, "score": 20.0}),
    ]
    found = summarize(games)
    assert found["env/score"] == 30.0
    assert found["env/score_max"] == 40.0
    assert found["env/step_cap"] == 2000.0
    assert found["env/ended/cap"] == 0.5
    assert found["env/ended/abort"] == 0.0
    assert summarize([]) == {}


def test_a_run_keeps_its_rules_for_the_report() -> None:
    graph = rules_of("")
    lines = rule_records(graph)[RULES_FILE].splitlines()
    assert len(lines) == len(graph.rules)
    assert json.loads(lines[0])["digest"] == graph.digest
    made = task_of("options.network=plain").records
    assert made is not None
    assert made(RunLog("run", (), (), {})) == rule_records(graph)
