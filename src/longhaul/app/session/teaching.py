"""Finding the teachers a config names."""

from __future__ import annotations

from longhaul.app.build.config import RunConfig
from longhaul.app.evaluation.load import load
from longhaul.core.errors import ConfigError
from longhaul.core.task import Task
from longhaul.learn.config import SCRIPT
from longhaul.learn.teacher import (
    Lessons,
    PolicyTeacher,
    ScriptTeacher,
    Teacher,
    TeacherGroup,
    choice_counts,
)

_KEY = "learn.teacher.sources"


def find_lessons(config: RunConfig, task: Task) -> Lessons | None:
    """Return what `learn.teacher` asks for, None if it names no source."""
    wanted = config.learn.teacher
    if not wanted.sources:
        return None
    counts = choice_counts(task.envs.spec.action)
    teachers = [_teacher(source, task, counts) for source in wanted.sources]
    if len(teachers) == 1:
        return Lessons(teachers[0], counts, wanted.smoothing)
    if task.assign_teacher is None:
        raise ConfigError(
            f"{_KEY} names {len(teachers)} teachers, but task {task.name!r} does not say which of "
            "them is asked when; name one"
        )
    return Lessons(TeacherGroup(teachers, task.assign_teacher), counts, wanted.smoothing)


def _teacher(source: str, task: Task, counts: tuple[int, ...]) -> Teacher:
    if source == SCRIPT:
        if task.script is None:
            raise ConfigError(f"{_KEY} = ['{SCRIPT}']: task {task.name!r} brings no script")
        return ScriptTeacher(task.script)
    agent = load(source)
    own, other = task.envs.spec, agent.task.envs.spec
    if dict(own.observation) != dict(other.observation) or own.action != other.action:
        raise ConfigError(
            f"{_KEY}: {source!r} was trained on {other.in_words()}; this run has {own.in_words()}"
        )
    return PolicyTeacher(agent.policy, agent.settings, counts)
