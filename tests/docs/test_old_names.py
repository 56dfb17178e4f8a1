"""Every name of the trainers before is the same quantity now, or says why there is none."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from docs.tools.reference import example_tasks, old_names_page

from longhaul.app.build.config import SessionOptions
from longhaul.app.build.faults import FaultLog
from longhaul.app.build.metrics import declared_metrics, declares
from longhaul.app.build.sources import ConfigSources, resolve, to_values
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run
from longhaul.core.config import flatten
from longhaul.core.metrics import Alias, Metric, alias_curves, follow_formula
from longhaul.engine.stop import after_iterations
from longhaul.envs.faults import Fault
from longhaul.runs.directory import RunDirectory
from longhaul.runs.lock import Clocks
from longhaul.runs.logs.jsonl import read_rows
from longhaul.runs.monitor.heartbeat import WorkerRegistry
from longhaul.runs.reader import merged_rows
from longhaul.tasks.mario.game.reward import REASONS
from longhaul.tasks.mario.source import run_probe
from longhaul.tasks.mario.task import OLD_NAMES
from tests.docs.old_schema import CURVES, FIELDS
from tests.tasks.mario.cartridges import game_or_skip

ITERATIONS, ENVS, STEPS = 4, 4, 32
OVERRIDES = (
    f"num_envs={ENVS}",
    f"collect.num_steps={STEPS}",
    "collect.overlap=false",
    "learn.algorithm=vtrace",
    "learn.minibatch_size=128",
    "learn.normalize_reward=false",
    "learn.replay.enabled=true",
    "learn.replay.capacity=512",
    "policy.image_features=8",
    "policy.hidden=[8]",
    "policy.joint=[8]",
    "options.script=RIGHT:3",
    "options.stagnation_limit=12",
    "options.reward.scale=0.5",
    "evaluate.final_episodes=0",
    "evaluate.every_iterations=0",
    "env.check_seeds=false",
    "report.at_end=false",
    "log.resource_seconds=0.05",
    "watch.heartbeat_seconds=0.1",
    "hints.rules.no-forward-progress={window=1,least=1e6}",
    "schedule=[{kind='adaptive',name='pay',setting='reward.progress',metric='env/forward_share',"
    "band=[0.0,0.1],limits=[0.5,2.0],start=0.02,end=0.01}]",
)
NOT_HERE = re.compile(r"gpu/.*|cluster/.*|eval/.*|env/clear_rate/<stage>")
"""Metrics of machines, commands and ends that the run below has not."""


@dataclass
class Logged:
    """What a run left behind."""

    rows: list[dict[str, Any]]
    episodes: list[dict[str, Any]]
    events: list[dict[str, Any]]
    values: dict[str, Any]
    """Of the last row and the settings and config keys in force, by name."""
    files: dict[str, Any] = field(default_factory=dict)


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Logged:
    config = resolve(ConfigSources("mario:standin", overrides=OVERRIDES))
    run = begin_run(config, tmp_path_factory.mktemp("runs")).directory
    stop = after_iterations(ITERATIONS)
    assert run_session(run, config, SessionOptions(quiet=True), also_until=stop).exit_code == 0
    rows = list(merged_rows(run))
    return Logged(
        rows,
        list(read_rows(run.episodes).rows),
        list(read_rows(run.events).rows),
        {**flatten(to_values(config)), **in_force(run), **rows[-1]},
        {name: json.loads((run.path / name).read_text()) for name in ("run.json", "heartbeat.json")}
        | {"config.toml": flatten(to_values(config))},
    )


def in_force(run: RunDirectory) -> dict[str, Any]:
    """Return the settings the last iteration ran with."""
    (newest,) = sorted(run.checkpoints.glob("step-*"))[-1:]
    settings: dict[str, Any] = json.loads((newest / "manifest.json").read_text())["settings"]
    for row in read_rows(run.events).rows:
        if row["event"] == "schedule" and row["iteration"] == ITERATIONS:
            settings |= {move["setting"]: move["old"] for move in row["moves"]}
    return settings


def of(kind: str) -> list[Alias]:
    return [alias for alias in OLD_NAMES if alias.kind == kind]


def names_in(formula: str) -> list[str]:
    parts = re.split(r" [+*/] ", formula)
    return [part for part in parts if not re.fullmatch(r"-?[0-9.]+", part)]


def test_every_field_and_curve_of_the_old_schema_is_in_the_table_once() -> None:
    assert sorted(alias.old for alias in of("curve")) == sorted(CURVES)
    assert sorted(alias.old for alias in of("field")) == sorted(FIELDS)


@pytest.mark.parametrize("alias", OLD_NAMES, ids=lambda alias: f"{alias.kind}-{alias.old}")
def test_an_old_name_has_a_counterpart_or_the_reason_why_not(alias: Alias) -> None:
    assert bool(alias.new) != bool(alias.none)


@pytest.mark.parametrize("alias", of("field"), ids=lambda alias: alias.old)
def test_what_a_field_became_is_where_the_table_says(alias: Alias, logged: Logged) -> None:
    if alias.none:
        return
    place, colon, key = alias.new.partition(": ")
    if not colon:
        for name in names_in(alias.new):
            assert is_measured(name, logged), name
    elif place == "events.jsonl":
        event, _, part = key.partition(".")
        assert any(row["event"] == event and (not part or row[part]) for row in logged.events)
    elif place == "sessions.jsonl":
        assert key == event_of_a_replaced_worker()
    elif place == "longhaul tool mario probe":
        game_or_skip()
        assert key in run_probe([]).partition("\n")[0].split()
    else:
        assert key in logged.files[place]


def event_of_a_replaced_worker() -> str:
    """Return the name under which a run notes one."""
    noted: list[str] = []
    registry = WorkerRegistry(Clocks())
    log = FaultLog(Path(), lambda text: None, registry, lambda event, **facts: noted.append(event))
    log.note(Fault("replaced", 0, 1, "step", "", "probe:chase", seconds=0.1))
    (event,) = noted
    return event


def is_measured(name: str, logged: Logged) -> bool:
    """Whether the run has a value of this name, or one for the words in `<>`."""
    if NOT_HERE.fullmatch(name):
        return any(declares(metric, name) for metric in declared_metrics(example_tasks().values()))
    if name.startswith("rollout/ended/") and "<" not in name:
        return name.removeprefix("rollout/ended/") in REASONS
    pattern = ".+".join(map(re.escape, re.split(r"<[^<>]+>", name)))
    return any(re.fullmatch(pattern, one) for row in (logged.values, *logged.rows) for one in row)


@pytest.mark.parametrize("alias", OLD_NAMES, ids=lambda alias: f"{alias.kind}-{alias.old}")
def test_the_unit_is_that_of_the_old_quantity(alias: Alias) -> None:
    found = names_in(alias.new)
    if len(found) != 1 or ": " in alias.new or re.search(r" / |^1 / ", alias.new):
        return
    declared = [*declared_metrics([example_tasks()["mario"]]), Metric("env_steps", "", "steps")]
    units = {metric.unit for metric in declared if metric.name == found[0]}
    assert units <= {alias.unit}


Row = Mapping[str, Any]
Old = Callable[[Logged], float]


def lately(part: str) -> Callable[[Logged], np.ndarray[Any, Any]]:
    return lambda run: np.array([episode[part] for episode in run.episodes[-100:]], float)


def ended(*reasons: str) -> Old:
    return lambda run: float(np.mean([e["reason"] in reasons for e in run.episodes[-100:]]))


def last(run: Logged) -> Row:
    return run.rows[-1]


returns, lengths = lately("episode_return"), lately("length")
FORMULAS: dict[str, Old] = {
    "update": lambda run: len(run.rows),
    "global_step": lambda run: len(run.rows) * ENVS * STEPS,
    "num_envs": lambda run: ENVS,
    "episodes_completed": lambda run: len(run.episodes),
    "avg_return": lambda run: returns(run).mean(),
    "recent_return_std": lambda run: returns(run).std(),
    "recent_return_max": lambda run: returns(run).max(),
    "recent_return_min": lambda run: returns(run).min(),
    "recent_return_p50": lambda run: np.percentile(returns(run), 50),
    "recent_return_p90": lambda run: np.percentile(returns(run), 90),
    "recent_return_p99": lambda run: np.percentile(returns(run), 99),
    "episode_length_mean": lambda run: lengths(run).mean(),
    "episode_length_p50": lambda run: np.percentile(lengths(run), 50),
    "episode_length_p90": lambda run: np.percentile(lengths(run), 90),
    "episode_length_p99": lambda run: np.percentile(lengths(run), 99),
    "episode_end_stagnation_ratio": ended("stagnation"),
    "episode_end_death_ratio": ended("enemy", "pit", "time_up", "game_over"),
    "episode_end_flag_ratio": ended("flag", "axe"),
    "episode_end_timeout_ratio": ended("timeout"),
    # The weighted sum without what replay adds, which the old one added too.
    "loss_per": lambda run: last(run)["replay/policy_loss"] + 0.5 * last(run)["replay/value_loss"],
    "entropy": lambda run: -last(run)["train/entropy_loss"],
    "env_steps_per_sec": lambda run: ENVS * STEPS / last(run)["time/iteration_seconds"],
    "updates_per_sec": lambda run: 1 / last(run)["time/iteration_seconds"],
    "collect_fraction": lambda run: (
        last(run)["time/collect_seconds"] / last(run)["time/iteration_seconds"]
    ),
    "env_frames_per_sec": lambda run: 4 * ENVS * STEPS / last(run)["time/iteration_seconds"],
    "env_shaping_last_scale": lambda run: 0.5,
    "env_shaping_scaled_sum": lambda run: sum(
        value
        for name, value in last(run).items()
        if name.startswith("reward/") and not name.endswith("_share")
    ),
    "wrapper_distance_weight": lambda run: (
        # The line from 0.02 to 0.01 along the run, times the scale, one iteration before.
        (0.02 - 0.01 * (ITERATIONS - 1) * ENVS * STEPS / run.values["total_timesteps"])
        * run.rows[-2]["adaptive/pay_scale"]
    ),
    "replay_push_total": lambda run: len(run.rows) * ENVS * STEPS,
    "replay_size": lambda run: min(len(run.rows) * ENVS * STEPS, last(run)["replay/capacity"]),
    "replay_fill_rate": lambda run: last(run)["replay/size"] / last(run)["replay/capacity"],
    "replay_per_sample_interval": lambda run: run.values["learn.replay.interval"],
    "episode_timeout_steps": lambda run: 0,
}
"""The old figures by their old formulas, from records that the present ones are not made of."""


@pytest.mark.parametrize("old", FORMULAS)
def test_a_field_is_the_old_quantity_by_the_old_formula(old: str, logged: Logged) -> None:
    (alias,) = (alias for alias in of("field") if alias.old == old)
    place, colon, key = alias.new.partition(": ")
    # The share of a reason that ended no episode is not in the row.
    absent = {name: 0.0 for name in names_in(alias.new) if name.startswith("rollout/ended/")}
    values = {**absent, **logged.values}
    now = logged.files[place][key] if colon else follow_formula(alias.new, values)
    assert now == pytest.approx(FORMULAS[old](logged), rel=1e-5, abs=1e-9)


def test_the_run_that_is_compared_had_ends_and_rewards_worth_comparing(logged: Logged) -> None:
    assert len(logged.episodes) >= 6
    assert len({episode["reason"] for episode in logged.episodes}) >= 1
    assert returns(logged).std() > 0
    assert 0 < -last(logged)["train/entropy_loss"] <= math.log(7)


def test_curves_of_the_old_names_are_formulas_of_their_fields() -> None:
    fields = {alias.new for alias in of("field")}
    own = {"tensorboard: meta/started", "tensorboard: meta/init", ""}
    assert {alias.new for alias in of("curve")} - fields - own == set()


def test_the_page_lists_every_name_once() -> None:
    page = old_names_page()
    for alias in OLD_NAMES:
        now = f"`{alias.new}`" if alias.new else ""
        assert f"| `{alias.old}` | {now} |" in page
        assert not alias.none or "No counterpart, because" in page


def test_a_curve_is_drawn_under_its_old_name() -> None:
    aliases = (
        Alias("Policy/entropy", "-1 * train/entropy_loss"),
        Alias("Loss/per", "replay/policy_loss + learn.vf_coef * replay/value_loss"),
        Alias("Rate", "1 / time/iteration_seconds"),
        Alias("custom/share_<value>", "eval/share", by="kind"),
        Alias("entropy", "train/entropy_loss", "field"),
        Alias("absent", "not/measured"),
        Alias("half", "train/entropy_loss + not/measured"),
        Alias("nothing", none="it is gone"),
    )
    values = {
        "train/entropy_loss": -0.5,
        "replay/policy_loss": 1.0,
        "replay/value_loss": 3.0,
        "learn.vf_coef": 0.5,
        "time/iteration_seconds": 0.25,
        "eval/share": 0.25,
        "kind": "a b",
    }
    expected = {"Policy/entropy": 0.5, "Loss/per": 2.5, "Rate": 4.0, "custom/share_a_b": 0.25}
    assert alias_curves(aliases, values) == expected
    assert "custom/share_" not in alias_curves(aliases, {**values, "kind": ""})


def test_every_curve_of_the_fish_exists() -> None:
    task = example_tasks()["fish"]
    declared = declared_metrics([task])
    settings = {setting.name for setting in task.settings} | {"learn.ent_coef"}
    for alias in task.aliases:
        assert alias.new in settings or any(declares(one, alias.new) for one in declared), alias
