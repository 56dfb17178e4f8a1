"""Whole runs in the true game."""

from __future__ import annotations

import pytest

from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.app.diagnose.verify import Interruption, verify

SMALL = (
    "num_envs=8",
    "collect.num_steps=32",
    "learn.minibatch_size=128",
    "learn.n_epochs=1",
    "options.rehearsal_episodes=2",
    "options.stagnation_limit=12",
    "evaluate.every_iterations=0",
    "evaluate.final_episodes=0",
)
EVERYTHING = (
    "options.starts.share=0.7",
    "learn.replay.enabled=true",
    "learn.replay.memory_megabytes=32",
    "collect.overlap=true",
)


@pytest.mark.slow
@pytest.mark.usefixtures("cartridge")
@pytest.mark.parametrize("preset", ["fast", "pixels"])
def test_a_run_with_hard_starts_replay_and_overlap_resumes_bit_for_bit(preset: str) -> None:
    config = resolve(ConfigSources("mario", preset, overrides=(*SMALL, *EVERYTHING)))
    report = verify(config, Interruption(iterations=6, interruptions=2))
    assert report.equal, report.as_text()
