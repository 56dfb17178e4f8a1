"""From demonstrations in files to the starts that training deals."""

from __future__ import annotations

from pathlib import Path as FilePath

from longhaul.app.build.config import RunConfig
from longhaul.core.errors import ConfigError
from longhaul.core.search import Search
from longhaul.core.task import Task
from longhaul.engine.demo import check_facts, load_demo, starts_along
from longhaul.envs.path_starts import Path, PathDealer
from longhaul.envs.search_space import EnvSpace, solved_by

WHOLE = "start"
"""The one goal of a task that names none."""


def search_of(task: Task) -> Search:
    """Return how a task is searched: as it says, or by its environments' snapshots."""
    if task.search is not None:
        return task.search
    goal = task.evaluation.solved
    return Search(
        goals=(WHOLE,),
        space=lambda name, count, threads: EnvSpace(task.envs, count, goal=goal),
        is_solved=solved_by(goal),
    )


def build_path_dealer(config: RunConfig, task: Task) -> PathDealer | None:
    """Return what deals the states of the demonstrations, None without any."""
    path = config.env.path
    if not path.demos:
        return None
    search = search_of(task)
    paths = tuple(path_of(search, FilePath(file), path.every) for file in path.demos)
    return PathDealer(paths, path, search.is_solved)


def path_of(search: Search, file: FilePath, every: int) -> Path:
    """Return the true start of a demonstration's goal and the states along it."""
    demo = load_demo(file)
    if demo.goal not in search.goals:
        raise ConfigError(
            f"{file} leads to {demo.goal!r}; the goals of this task are {', '.join(search.goals)}"
        )
    space = search.space(demo.goal, 1, 1)
    try:
        check_facts(demo, space, str(file))
        states = starts_along(space, demo, every)
        if space.digest(0) != demo.end:
            raise ConfigError(
                f"{file} does not lead to the goal any more: it was found with another version of "
                "the game or of longhaul; search again"
            )
    finally:
        space.close()
    return Path(demo.goal, (search.origin(demo.goal), *states))
