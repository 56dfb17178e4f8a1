"""The controllers of a Mario run, put together from its options."""

from __future__ import annotations

from typing import Any

from longhaul.core.control import Controller
from longhaul.core.settings import Setting
from longhaul.tasks.mario.options import Options
from longhaul.tasks.mario.reward.options import PREFIX
from longhaul.tasks.mario.schedule.help import Help
from longhaul.tasks.mario.schedule.shares import EarlyWindow, HardStarts, MilestonesOnce
from longhaul.tasks.mario.schedule.stages import StageCurriculum


def build_controllers(options: Options) -> tuple[Controller[Any], ...]:
    """Return the controllers the options ask for, in the order they decide."""
    weights: dict[str, Setting[float]] = {one.name: one for one in options.reward.settings()}
    found: list[Controller[Any]] = []
    if options.schedule.help.is_on:
        found.append(Help(options.schedule.help))
    if options.schedule.stages.order == "curriculum":
        names = tuple(str(stage) for stage in options.lottery().stages)
        found.append(StageCurriculum(names, options.schedule.stages))
    if options.starts.is_on and options.starts.adapts:
        found.append(HardStarts(options.starts.share))
    if options.reward.milestone and options.reward.milestones_once:
        found.append(MilestonesOnce(weights[f"{PREFIX}milestone_floor"]))
    if options.reward.early and options.reward.early_iterations:
        found.append(EarlyWindow(weights[f"{PREFIX}early"], options.reward.early_iterations))
    return tuple(found)
