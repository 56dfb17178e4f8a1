"""Repro files: what they hold, and what is said of ones that cannot be used."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.env import empty_actions
from longhaul.core.errors import ConfigError
from longhaul.core.spaces import (
    ActionSpec,
    Continuous,
    Discrete,
    EnvSpec,
    MultiDiscrete,
    Part,
    Tier,
)
from longhaul.envs.config import ProcessesConfig
from longhaul.envs.faults import Repro, timeless
from longhaul.envs.gymnasium.env import GymnasiumFactory
from longhaul.envs.processes.limits import MemoryWatch
from longhaul.envs.processes.repro import (
    read_repro,
    read_spec,
    remake,
    reproduce,
    write_repro,
    write_spec,
    written_down,
)
from tests.faults.walk import WalkFactory

REPRO = Repro(
    env_id="test:walk", spec=write_spec(WalkFactory().spec),
    factory="tests.faults.walk:WalkFactory",
    arguments={"folder": "", "tier": "replay", "longest": 12}, env=3, episode=2, seed=77,
    start=None, settings=None, actions=[[1], [2]], is_whole=True, failure="died", stage="step",
    error="its process was killed by SIGKILL", traceback="",
)  # fmt: skip


def test_a_file_brings_back_what_was_written(tmp_path: Path) -> None:
    path = write_repro(REPRO, tmp_path / "crash")
    assert path.name == "repro-env3-seed77.json"
    assert read_repro(path) == REPRO
    assert remake(REPRO) == WalkFactory()


def test_a_failure_that_does_not_come_again_is_told(tmp_path: Path) -> None:
    shown = reproduce(write_repro(REPRO, tmp_path), config=ProcessesConfig(construct_seconds=30.0))
    assert not shown.is_same
    assert shown.as_text() == "nothing happened in 2 steps; before, it died"


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "is not a repro file"), ("{}", "is not a repro file"), (None, "cannot be read")],
)
def test_a_file_that_is_none_is_told(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "repro-x.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        reproduce(path)


def test_an_env_that_cannot_be_made_again_is_told() -> None:
    with pytest.raises(ConfigError, match="does not say how to make test:walk"):
        remake(replace(REPRO, factory=""))
    with pytest.raises(ConfigError, match="cannot be made again"):
        remake(replace(REPRO, factory="tests.faults.walk:Nothing"))
    with pytest.raises(ConfigError, match="cannot be made again"):
        remake(replace(REPRO, arguments={"longest": "long"}))


@dataclass(frozen=True)
class Unwritable:
    held: object = object()

    def __call__(self) -> object:
        return self.held


def test_factories_are_written_down_as_class_and_fields_if_they_can_be() -> None:
    factory = GymnasiumFactory("CartPole-v1", {"render_mode": None}, tier=Tier.REPLAY)
    name, fields = written_down(factory)
    assert name == "longhaul.envs.gymnasium.env:GymnasiumFactory"
    again = remake(replace(REPRO, factory=name, arguments=json.loads(json.dumps(fields))))
    assert asdict(again) == asdict(factory)  # type: ignore[call-overload]  # it is one of these
    assert written_down(Unwritable()) == ("", {})  # type: ignore[arg-type]  # as a user might
    assert written_down(lambda: WalkFactory()()) == ("", {})


actions = st.one_of(
    st.builds(Discrete, st.integers(1, 9)),
    st.builds(MultiDiscrete, st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)),
    st.just(Continuous((-math.inf, 0.0), (math.inf, 1.0))),
)


@given(actions, st.integers(1, 3))
def test_a_spec_read_back_has_the_same_arrays(action: ActionSpec, rows: int) -> None:
    spec = EnvSpec(
        "a", {"x": Part((2, 3), "uint8")}, action, rows=rows, terms=("one",), measures=("two",)
    )
    back = read_spec("a", json.loads(json.dumps(write_spec(spec), allow_nan=False)))
    assert (back.observation, back.rows, back.terms) == (spec.observation, rows, ("one",))
    mine, theirs = empty_actions(spec, rows), empty_actions(back, rows)
    assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)


def test_events_hold_no_addresses() -> None:
    assert timeless("<Ball object at 0x7f1a2b3c4d5e> lost") == "<Ball object at 0x...> lost"


def test_the_memory_watch_looks_only_when_it_is_time_and_wanted() -> None:
    now = [0.0]
    watch = MemoryWatch(ProcessesConfig(memory_check_seconds=5.0), lambda: now[0])
    assert not watch.due()
    now[0] = 5.0
    assert watch.due()
    watch.look([(0, 2**22 + 1)])  # no such process
    assert not watch.due()
    assert watch.growth == {}
    off = MemoryWatch(ProcessesConfig(memory_growth_mb=0), lambda: now[0])
    now[0] = 1e9
    assert not off.due()
