from __future__ import annotations

import dataclasses
import tomllib
from typing import Any

import pytest
from docs.tools.fields import field_docs

from longhaul.core.control import Controller, Progress, RunLength
from longhaul.core.errors import ConfigError
from longhaul.schedule.adaptive import Nudge
from longhaul.schedule.config import KINDS, build_controllers
from longhaul.schedule.criterion import Criterion, Limit
from longhaul.schedule.gate import Gate
from longhaul.schedule.ladder import Ladder
from longhaul.schedule.phases import Phase, Phases
from longhaul.schedule.ramp import Ramp
from longhaul.schedule.start_queue import StartQueue, StartStage
from tests.schedule.examples import (
    CATEGORY,
    FISH,
    RATE,
    ROUTER,
    SCORE,
    STAGE,
    STARTS,
    TEMPERATURE,
    USED,
    WEIGHT,
    settings,
)

ALL_KINDS = """
[[schedule]]
kind = "ramp"
name = "lr"
setting = "learn.learning_rate"
start = 0.1
shape = "cosine"
warm_up = 0.05

[[schedule]]
kind = "nudge"
name = "weight"
setting = "reward.weight"
metric = "eval/score"
band = [0.2, 0.4]
limits = [0, 1]

[[schedule]]
kind = "start_queue"
name = "tail"
setting = "env.starts"
metric = "starts/used"
batch = 8
category = "starts.category"
[[schedule.stages]]
length = 10
category = "ne"
starts = [[1.5, 0.0], [2, 3]]

[[schedule]]
kind = "gate"
name = "gate"
setting = "gate.stage"
stages = 4
category = "starts.category"
success = [{ metric = "eval/score", comparison = ">=", threshold = 1, by_category = { ne = 2 } }]

[[schedule]]
kind = "phases"
name = "phases"
along = "run"
limit = { setting = "gate.stage", allowance = [0, 1] }
[[schedule.phases]]
name = "first"
start = 0
assign = { "policy.router" = "softmax", policy.temperature = 1 }
[[schedule.phases]]
name = "second"
start = 0.5
move = { policy.temperature = 0.5 }
over = 0.25

[[schedule]]
kind = "ladder"
name = "fish"
setting = "env.fish"
values = [15, 20, 25]
when = { metric = "eval/score", comparison = ">", threshold = 0.5, window = 3 }
"""


def test_every_kind_is_read_from_toml() -> None:
    tables = tomllib.loads(ALL_KINDS)["schedule"]
    assert build_controllers(tables, settings(), run=RunLength(5000)) == (
        Ramp("lr", RATE, start=0.1, shape="cosine", warm_up=0.05, total=5000),
        Nudge("weight", WEIGHT, SCORE, band=(0.2, 0.4), limits=(0.0, 1.0)),
        StartQueue(
            "tail",
            STARTS,
            USED,
            (StartStage(10, ((1.5, 0.0), (2, 3)), category="ne"),),
            batch=8,
            category=CATEGORY,
        ),
        Gate(
            "gate",
            STAGE,
            stages=4,
            success=(Criterion(SCORE, ">=", 1.0, by_category={"ne": 2.0}),),
            category=CATEGORY,
        ),
        Phases(
            "phases",
            (
                Phase("first", 0.0, assign=(ROUTER.to("softmax"), TEMPERATURE.to(1.0))),
                Phase("second", 0.5, move=(TEMPERATURE.to(0.5),), over=0.25),
            ),
            along="run",
            total=5000,
            limit=Limit(STAGE, (0, 1)),
        ),
        Ladder("fish", FISH, (15, 20, 25), when=Criterion(SCORE, ">", 0.5, window=3)),
    )


def build(**table: object) -> Controller[Any]:
    (controller,) = build_controllers([table], settings())
    return controller


def refusal(**table: object) -> str:
    with pytest.raises(ConfigError) as refused:
        build(**table)
    return str(refused.value)


RAMP: dict[str, object] = {
    "kind": "ramp",
    "name": "lr",
    "setting": RATE.name,
    "start": 0.1,
    "total": 100,
}


def test_a_total_of_ones_own_goes_before_the_length_of_the_run() -> None:
    (ramp,) = build_controllers([RAMP], settings(), run=RunLength(7))
    assert ramp == Ramp("lr", RATE, start=0.1, total=100)


def test_shares_of_a_run_in_episodes_are_of_its_episodes() -> None:
    table = {key: value for key, value in RAMP.items() if key != "total"}
    (ramp,) = build_controllers([table], settings(), run=RunLength(7, total_episodes=40))
    assert ramp == Ramp("lr", RATE, start=0.1, along="run_episodes", total=40)
    assert ramp.value_at(Progress(1, env_steps=10**9, episodes=10)) == pytest.approx(0.075)


def test_an_unknown_kind_suggests_the_nearest() -> None:
    assert refusal(**{**RAMP, "kind": "rampp"}) == (
        "schedule.lr.kind is 'rampp'; the kinds are "
        "ramp, metric_ramp, nudge, adaptive, gate, phases, ladder, start_queue; did you mean "
        "'ramp'?"
    )


def test_a_table_without_kind_or_name_is_told_by_its_number() -> None:
    assert refusal(setting="x").startswith("schedule[1].kind is missing; the kinds are ramp,")
    assert refusal(kind="ramp", setting=RATE.name, start=1.0) == "schedule[1].name is missing"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"finishx": 3}, "unknown config key 'schedule.lr.finishx'; did you mean 'finish'?"),
        ({"start": "high"}, "schedule.lr.start: expected float, got str"),
        ({"total": 1.5}, "schedule.lr.total: expected int, got float"),
        (
            {"shape": "cosin"},
            "schedule.lr.shape = 'cosin' is none of 'linear', 'cosine', 'constant'; "
            "did you mean 'cosine'?",
        ),
        (
            {"setting": "learn.learnin_rate"},
            "schedule.lr.setting: setting 'learn.learnin_rate' is not declared; "
            "did you mean 'learn.learning_rate'?",
        ),
        ({"setting": 3}, "schedule.lr.setting is the name of a setting, not 3"),
        (
            {"setting": FISH.name},
            "schedule.lr.setting: setting 'env.fish' holds int, and a setting that holds float "
            "is needed",
        ),
        (
            {"warm_up": 2},
            "schedule.lr needs 0 <= warm_up < finish, not warm_up = 2.0, finish = 1.0",
        ),
    ],
)
def test_a_wrong_value_is_told_by_table_and_key(changed: dict[str, object], message: str) -> None:
    assert refusal(**{**RAMP, **changed}) == message


def phases(*tables: object) -> str:
    return refusal(kind="phases", name="p", phases=list(tables))


def test_errors_in_nested_tables_name_the_whole_path() -> None:
    first = {"name": "a", "start": 0}
    assert phases(first, {"name": "b", "start": 1, "assignx": {}}) == (
        "unknown config key 'schedule.p.phases[1].assignx'; did you mean 'assign'?"
    )
    assert phases({"name": "a"}) == "schedule.p.phases[0].start is missing"
    assert phases(3) == "schedule.p.phases[0] is a table, not 3"
    assert phases({**first, "assign": {"policy.rooter": "x"}}) == (
        "schedule.p.phases[0].assign: setting 'policy.rooter' is not declared; "
        "did you mean 'policy.router'?"
    )
    assert phases({**first, "assign": {ROUTER.name: 3}}) == (
        "schedule.p.phases[0].assign: setting 'policy.router' holds str, not 3"
    )
    assert phases({**first, "assign": {TEMPERATURE.name: 7}}) == (
        "schedule.p.phases[0].assign: setting 'policy.temperature' = 7.0 is outside [0.1, 1.0]"
    )
    assert phases({**first, "assign": 3}) == (
        "schedule.p.phases[0].assign is a table from settings to values, not 3"
    )


def test_a_list_that_is_none_is_told() -> None:
    assert (
        refusal(kind="phases", name="p", phases="all") == "schedule.p.phases is a list, not 'all'"
    )


def test_a_date_is_no_value_for_a_setting() -> None:
    table = tomllib.loads(
        'kind = "ladder"\nname = "l"\nsetting = "env.fish"\nvalues = [2026-01-01]'
    )
    assert refusal(**table).startswith("schedule.l.values[0]: a setting cannot hold")


def test_a_window_of_a_criterion_is_told_by_its_path() -> None:
    criterion = {"metric": SCORE, "comparison": ">", "threshold": 0, "window": 0}
    message = refusal(kind="gate", name="g", setting=STAGE.name, stages=3, success=[criterion])
    assert message == ("schedule.g.success[0]: the criterion on 'eval/score' has a window below 1")
    criterion = {"metric": SCORE, "comparison": ">", "threshold": 0, "by_category": {"ne": "x"}}
    message = refusal(kind="gate", name="g", setting=STAGE.name, stages=3, success=[criterion])
    assert message == "schedule.g.success[0].by_category[...]: expected float, got str"


@pytest.mark.parametrize("kind", [*KINDS.values(), Phase, StartStage, Criterion, Limit])
def test_every_field_a_user_can_write_is_documented(kind: type) -> None:
    names = {field.name for field in dataclasses.fields(kind)}
    assert set(field_docs(kind)) == names
