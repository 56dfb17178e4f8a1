from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from longhaul.core.env import SingleEnvs
from longhaul.core.errors import ConfigError
from longhaul.engine.demo import Demo, load_demo, play, starts_along, verify
from longhaul.envs.search_space import EnvSpace
from longhaul.tasks.probe.lock import LockFactory

LOCK = LockFactory(positions=6)


def space() -> EnvSpace:
    return EnvSpace(SingleEnvs(LOCK.spec, LOCK), 1)


@pytest.fixture
def demo() -> Demo:
    own = space()
    found = Demo("probe:lock", "start", dict(own.facts), LOCK.key, "", {"seed": 3})
    for _ in play(own, found):
        pass
    return replace(found, end=own.digest(0))


def test_a_demonstration_comes_back_from_its_file(demo: Demo, tmp_path: Path) -> None:
    path = tmp_path / "start.demo"
    path.write_text(demo.as_text())
    assert load_demo(path) == demo


def test_a_demonstration_is_verified_by_replaying_it(demo: Demo) -> None:
    assert verify(space(), demo)
    assert not verify(space(), replace(demo, decisions=demo.decisions[:-1]))
    assert not verify(space(), replace(demo, decisions=(*demo.decisions, 0)))
    assert not verify(space(), replace(demo, end="another"))


def test_a_demonstration_of_another_game_is_refused(demo: Demo) -> None:
    with pytest.raises(ConfigError, match="was found with seed = 9, here it is 0"):
        verify(space(), replace(demo, facts={**demo.facts, "seed": "9"}))


def test_starts_along_a_demonstration_leave_out_its_goal(demo: Demo) -> None:
    assert len(starts_along(space(), demo, 1)) == 5
    assert len(starts_along(space(), demo, 2)) == 2
    with pytest.raises(ConfigError, match="too few for a start every 9"):
        starts_along(space(), demo, 9)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nonsense", "is not a demonstration"),
        ('{"format": 1}', "is not a demonstration"),
        (
            '{"format": 7, "task": "t", "goal": "g", "facts": {}, "decisions": "1", "end": ""}',
            "format 7",
        ),
        (
            '{"format": 1, "task": "t", "goal": "g", "facts": {}, "decisions": "x", "end": ""}',
            "is not a demonstration",
        ),
    ],
)
def test_another_file_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "odd.demo"
    path.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        load_demo(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the demonstration"):
        load_demo(tmp_path / "none.demo")
