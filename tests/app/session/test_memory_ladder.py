"""Shrinking a run that does not fit into memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import longhaul
from longhaul.app.build.memory import is_out_of_memory
from longhaul.app.session.memory_ladder import check_choice, tiers
from longhaul.core.errors import ConfigError, MemoryShortageError
from longhaul.core.parts import RunControl
from longhaul.runs.directory import Status, list_run_directories
from tests.app.small import CARTPOLE, small_config

ROOM = {"rows": 2}
"""How many observations fit into memory at once."""


class Wide(nn.Module):
    """A network that needs more memory than any machine has for more rows than there is room."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.layer = nn.Linear(shape[0], 4)

    def forward(self, observation: Tensor) -> Tensor:
        if len(observation) > ROOM["rows"]:
            torch.empty(1 << 50, dtype=torch.uint8)
        features: Tensor = self.layer(observation)
        return features


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., longhaul.Run]:
    monkeypatch.setitem(ROOM, "rows", 2)
    small: dict[str, Any] = {
        "num_envs": 4,
        "total_timesteps": 96,
        "collect": {"num_steps": 32},
        "learn": {"minibatch_size": 2, "n_epochs": 1},
        "policy": {"trunk": Wide},
        "evaluate": {"final_episodes": 0},
        "env": {"check_seeds": False},
    }
    return functools.partial(longhaul.train, CARTPOLE, runs_root=tmp_path, **small)


SHRINK = longhaul.SessionOptions(quiet=True, on_memory="shrink")


def sizes(root: Path) -> list[tuple[int, int, Status]]:
    """Return environments, steps and status of each run, in the order they began."""
    runs = [longhaul.Run(one) for one in list_run_directories(root / "gym-cartpole-v1")]
    runs.sort(key=lambda run: run.record.created_at)
    return [(run.config.num_envs, run.config.collect.num_steps, run.record.status) for run in runs]


def test_rollout_and_environments_are_halved_in_turn_down_to_the_floor() -> None:
    def shrunk(*overrides: str) -> list[tuple[int, int]]:
        found = tiers(small_config(CARTPOLE, *overrides))
        return [(one.num_envs, one.collect.num_steps) for one in found]

    assert shrunk("num_envs=8", "collect.num_steps=64") == [(8, 32), (4, 32), (4, 16), (2, 16)]
    assert shrunk("num_envs=64", "collect.num_steps=256") == [
        (64, 128),
        (32, 128),
        (32, 64),
        (16, 64),
    ]
    assert shrunk("num_envs=2", "collect.num_steps=32") == [(2, 16)]
    assert shrunk("num_envs=3", "collect.num_steps=16") == []
    assert shrunk("num_envs=8", "collect.num_steps=64", "collect.chunk=64") == [(4, 64), (2, 64)]


def test_a_run_without_room_begins_again_smaller_until_it_fits(
    train: Callable[..., longhaul.Run], tmp_path: Path
) -> None:
    run = train(session=SHRINK)
    assert run.outcome is not None
    assert run.outcome.is_finished
    assert sizes(tmp_path) == [
        (4, 32, Status.FAILED),
        (4, 16, Status.FAILED),
        (2, 16, Status.FINISHED),
    ]


def test_at_the_floor_it_ends_as_a_run_without_memory_does(
    train: Callable[..., longhaul.Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ROOM, "rows", 1)
    with pytest.raises(MemoryShortageError) as ending:
        train(session=SHRINK)
    assert ending.value.exit_code == 6
    assert [size[:2] for size in sizes(tmp_path)] == [(4, 32), (4, 16), (2, 16)]


def test_without_being_asked_for_nothing_shrinks(
    train: Callable[..., longhaul.Run], tmp_path: Path
) -> None:
    with pytest.raises(MemoryShortageError, match="lower num_envs"):
        train(quiet=True)
    assert sizes(tmp_path) == [(4, 32, Status.FAILED)]


class StopsOnce(longhaul.RunListener):
    """Ends the process, as far as the run can tell, after an iteration that was saved."""

    stopped = False

    def steer(self, run: RunControl) -> None:
        if run.progress.iteration == 2 and not self.stopped:
            self.stopped = True
            raise KeyboardInterrupt


def test_the_same_command_goes_on_with_the_smaller_run(
    train: Callable[..., longhaul.Run], tmp_path: Path
) -> None:
    again = functools.partial(train, session=SHRINK, checkpoint={"every_iterations": 1})
    stops = StopsOnce()
    with pytest.raises(KeyboardInterrupt):
        again(listeners=[stops])
    before = sizes(tmp_path)
    assert before[-1] == (2, 16, Status.STOPPED)
    run = again(listeners=[stops])
    assert run.outcome is not None
    assert run.outcome.is_finished
    assert sizes(tmp_path) == [*before[:-1], (2, 16, Status.FINISHED)]


@pytest.mark.parametrize(
    ("error", "is_shortage"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (RuntimeError("the simulator lost its ball"), False),
        (OSError(28, "No space left on device"), False),
    ],
)
def test_only_a_lack_of_memory_is_one(error: Exception, is_shortage: bool) -> None:  # noqa: FBT001
    assert is_out_of_memory(error) is is_shortage


def test_what_cannot_be_shrunk_is_refused(train: Callable[..., longhaul.Run]) -> None:
    with pytest.raises(ConfigError, match="use one of stop, shrink"):
        train(session=longhaul.SessionOptions(quiet=True, on_memory="half"))
    with pytest.raises(ConfigError, match="--continue-from keeps it"):
        check_choice("shrink", continues=True, processes=1)
    with pytest.raises(ConfigError, match="not under torchrun"):
        check_choice("shrink", continues=False, processes=2)
    check_choice("stop", continues=True, processes=2)
