"""Reproducing a recorded failure of an environment without its run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from longhaul.app.build.components import build_task
from longhaul.app.build.env_output import env_output
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.core.env import SingleEnvs
from longhaul.core.errors import ConfigError
from longhaul.envs.config import ProcessesConfig
from longhaul.envs.faults import Repro
from longhaul.envs.processes.repro import Reproduction, read_repro, reproduce


@dataclass(frozen=True, slots=True)
class ReproVerdict:
    """What a repro file holds and what playing it gave."""

    repro: Repro
    reproduction: Reproduction

    @property
    def is_same(self) -> bool:
        """Whether the environment failed as it had in the run."""
        return self.reproduction.is_same

    def as_text(self) -> str:
        """Return the file's failure, the present one, and whether they are the same."""
        repro = self.repro
        lines = [
            f"{repro.env_id}, seed {repro.seed}, {len(repro.actions)} steps",
            f"in the run: {repro.failure} in {repro.stage}: {repro.error}",
            f"here:       {self.reproduction.as_text().strip()}",
        ]
        if not repro.is_whole:
            lines.append("the file does not hold the whole episode, so it may not fail here")
        if self.is_same:
            lines.append("the same failure")
        elif self.reproduction.happened != "nothing":
            lines.append("a different failure than in the run")
        else:
            lines.append(
                "no failure: seed and actions alone do not cause it; check what else the "
                "environment depends on, such as time, memory, files or the machine"
            )
        return "\n".join(lines)

    def as_json(self) -> str:
        """Return the outcome for programs."""
        return json.dumps({"same": self.is_same, **asdict(self.reproduction)})


@env_output()
def reproduce_file(path: Path, *, task: str = "", deadline_seconds: float = 60.0) -> ReproVerdict:
    """Play a repro file in a separate process.

    `task` names what makes the environment if the file does not.
    """
    if not deadline_seconds > 0:
        raise ConfigError(f"--deadline must be more than 0, not {deadline_seconds}")
    repro = read_repro(path)
    config = replace(
        ProcessesConfig(),
        construct_seconds=deadline_seconds,
        reset_seconds=deadline_seconds,
        step_seconds=deadline_seconds,
    )
    make = None if not task else _single(task).make
    try:
        return ReproVerdict(repro, reproduce(path, make=make, config=config))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # Reading checks the file's structure; only use checks its spec and actions.
        raise ConfigError(f"{path} is not a valid repro file: {error!r}") from error


def _single(task: str) -> SingleEnvs:
    source = build_task(resolve(ConfigSources(task=task))).envs
    if not isinstance(source, SingleEnvs):
        raise ConfigError(f"--task {task}: its environments do not run in worker processes")
    return source
