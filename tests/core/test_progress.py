from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, field

import pytest

from longhaul.core.control import Progress


@dataclass
class Batch:
    """What progress needs of a rollout."""

    env_steps: int
    episodes: list[str] = field(default_factory=list)


def test_progress_counts_iterations_steps_and_episodes() -> None:
    progress = Progress().after(Batch(128, ["a", "b"])).after(Batch(64))
    assert progress == Progress(iteration=2, env_steps=192, episodes=2)


def test_progress_cannot_be_turned_back() -> None:
    progress = Progress(3)
    with pytest.raises(FrozenInstanceError):
        progress.iteration = 1  # type: ignore[misc]  # what the test is about
