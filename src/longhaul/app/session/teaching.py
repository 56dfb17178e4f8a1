"""Finding the teachers a config names."""

from __future__ import annotations

import torch

from longhaul.app.build.config import RunConfig
from longhaul.app.evaluation.load import load
from longhaul.core.errors import ConfigError
from longhaul.core.rollout import TensorTree
from longhaul.core.task import Task
from longhaul.learn.config import SCRIPT
from longhaul.learn.teacher import (
    Covers,
    Lessons,
    PolicyTeacher,
    ScriptTeacher,
    SingleTeacher,
    TeacherGroup,
)

_KEY = "learn.teacher.sources"


def find_lessons(config: RunConfig, task: Task) -> Lessons | None:
    """Return what `learn.teacher` asks for, None if it names no source."""
    wanted = config.learn.teacher
    if not wanted.sources:
        return None
    counts = task.envs.spec.action.counts
    if not counts:
        raise ConfigError(
            f"{_KEY}: a teacher of continuous actions is not supported; leave it empty"
        )
    if len(wanted.sources) == 1:
        return Lessons(_teacher(wanted.sources[0], task, counts)[0], counts, wanted.smoothing)
    teachers = []
    for source in wanted.sources:
        teacher, covers = _teacher(source, task, counts)
        if covers is None:
            raise ConfigError(
                f"{_KEY} names {len(wanted.sources)} teachers, but the task of {source!r} does not "
                "say for which observations it is made; name one teacher"
            )
        covers(_blank(task))  # A task that cannot say it raises.
        teachers.append((teacher, covers))
    return Lessons(TeacherGroup(teachers, sum(counts)), counts, wanted.smoothing)


def _blank(task: Task) -> TensorTree:
    """Return one observation of zeros."""
    return {name: torch.zeros(1, *part.shape) for name, part in task.envs.spec.observation.items()}


def _teacher(
    source: str, task: Task, counts: tuple[int, ...]
) -> tuple[SingleTeacher, Covers | None]:
    if source == SCRIPT:
        if task.script is None:
            raise ConfigError(f"{_KEY} = ['{SCRIPT}']: task {task.name!r} brings no script")
        return ScriptTeacher(task.script), task.covers
    agent = load(source)
    own, other = task.envs.spec, agent.task.envs.spec
    seen = dict(own.observation)
    unseen = [name for name, part in other.observation.items() if seen.get(name) != part]
    if unseen or own.action != other.action:
        raise ConfigError(
            f"{_KEY}: {source!r} was trained on {other.in_words()}; this run has {own.in_words()}"
        )
    return PolicyTeacher(agent.policy, agent.settings, counts), agent.task.covers
