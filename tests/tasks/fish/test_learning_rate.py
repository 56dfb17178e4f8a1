"""Row 11 of the checklist: the learning rate follows the whole run, whatever its phases."""

from __future__ import annotations

import pytest

from longhaul.app.build.components import build_schedule, build_settings, build_task
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.core.control import Progress, View
from longhaul.learn.config import LEARNING_RATE


def rates(*overrides: str) -> list[float]:
    """Return the rate of each of the 60 updates and the one that would follow."""
    config = resolve(ConfigSources(task="fish", preset="original", overrides=overrides))
    task = build_task(config)
    settings = build_settings(config, task)
    schedule = build_schedule(config, task, settings)
    settings, _ = schedule.begin(settings)
    found = [settings[LEARNING_RATE]]
    for iteration in range(1, 61):
        settings, _ = schedule.step(View(Progress(iteration), {}, settings))
        found.append(settings[LEARNING_RATE])
    return found


def test_the_warm_cosine_has_the_recorded_values() -> None:
    found = rates()
    recorded = {0: 2.5e-4, 6: 1.875e-4, 12: 1.25e-4, 24: 1.067e-4, 36: 6.25e-5, 48: 1.83e-5, 60: 0}
    for iteration, rate in recorded.items():
        assert found[iteration] == pytest.approx(rate, rel=1e-3, abs=1e-12)
    assert all(rate > 0 for rate in found[:60]), "no update is lost"


def test_phases_do_not_change_it() -> None:
    one_phase = rates(
        "options.training.curriculum=[{fish = 25, iterations = 60}]",
        "options.training.ladder.phase_targets=[0.02]",
        "options.training.ladder.ramp_phases=[]",
        "options.training.ladder.phase_plateaus=[]",
        "options.training.gate.phase_allowance=[]",
    )
    assert one_phase == rates()
