"""Trials that learn by a rule, without training anything: quick, and failing on demand."""

from __future__ import annotations

import itertools
import json
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from longhaul.app.build.sources import ConfigSources, resolve, to_values
from longhaul.app.experiments.jobs import Process
from longhaul.app.experiments.search.plan import SearchPlan, SearchRequest, make_plan
from longhaul.app.experiments.search.runner import Findings, SearchRunner
from longhaul.runs.directory import (
    RunDirectory,
    Status,
    begin_record,
    create_run,
    find_unfinished,
    write_status,
)
from longhaul.runs.toml import write_toml

METRIC = "eval/mean_reward"
ROWS = 10
STEPS = 1000


class Actor:
    """A process that writes one row whenever it is looked at."""

    def __init__(self, world: World, run: RunDirectory, quality: float, fate: str) -> None:
        self._world, self._run, self._quality, self._fate = world, run, quality, fate
        self._asked = False
        self._code: int | None = None

    def poll(self) -> int | None:
        """Do a tenth of the work."""
        self._world.now += 1.0
        if self._code is not None:
            return self._code
        lines = self._run.metrics.read_text().splitlines() if self._run.metrics.exists() else []
        if self._asked:
            return self._leave(143, Status.STOPPED)
        if self._fate and len(lines) == ROWS // 2:
            return self._leave(int(self._fate), Status.FAILED)
        if len(lines) == ROWS:
            return self._leave(0, Status.FINISHED)
        share = (len(lines) + 1) / ROWS
        row = {"iteration": len(lines) + 1, "env_steps": int(STEPS * share)}
        row_text = json.dumps({**row, METRIC: self._quality * share})
        with self._run.metrics.open("a") as file:
            file.write(row_text + "\n")
        return None

    def ask_to_stop(self) -> None:
        """Stop at the next look."""
        self._asked = True

    def end(self) -> int:
        """Stop now."""
        self._asked = True
        code = self.poll()
        assert code is not None, "it was asked to stop"
        return code

    def _leave(self, code: int, status: Status) -> int:
        self._code = code
        write_status(self._run.record, status)
        return code


class World:
    """Where such processes are started; `fates` are exit codes of trials that fail."""

    def __init__(self, root: Path, fates: dict[int, str] | None = None) -> None:
        self.root = root
        self.fates = fates or {}
        self.now = 0.0
        self.started: list[int] = []
        self.said: list[str] = []
        self.plans: dict[str, SearchPlan] = {}

    def launch(self, command: Sequence[str], log: Path) -> Process:
        """Begin or go on with a run, as `longhaul train` would."""
        words = dict(itertools.pairwise(command))
        name, seed, task = words["--name"], int(words["--seed"]), words["train"]
        number = int(name.rpartition("-")[2])
        self.started.append(number)
        log.write_text(f"longhaul: fate {self.fates.get(number, '')}\n")
        values = tomllib.loads(Path(words["--config"]).read_text())
        flags = {**values, "name": name, "seed": seed}
        config = resolve(ConfigSources(task, flags=flags))
        run = find_unfinished(self.root, task, name, seed)
        if run is None:
            record = begin_record(
                task, name, seed, now=datetime(2026, 1, 1, tzinfo=UTC), command=[]
            )
            run = create_run(self.root, record, write_toml(to_values(config)))
        quality = 100.0 - 1e4 * abs(config.learn.learning_rate - 3e-3)
        return Actor(self, run, quality, self.fates.get(number, ""))

    def runner(self, **changes: Any) -> SearchRunner:
        """Return a search in this world."""
        asked: dict[str, Any] = {
            "task": "probe:chase",
            "space": ("learn.learning_rate=log:1e-4..1e-2", "learn.n_epochs=int:1..4"),
            "timesteps": STEPS,
            "trials": 5,
            "root": self.root,
            **changes,
        }
        if repr(asked) not in self.plans:
            self.plans[repr(asked)] = make_plan(SearchRequest(**asked))
        plan = self.plans[repr(asked)]
        plan.request.folder.mkdir(parents=True, exist_ok=True)
        return SearchRunner(
            plan,
            self.said.append,
            launch=self.launch,
            clock=lambda: self.now,
            rest=lambda seconds: None,
        )

    def search(self, **changes: Any) -> Findings:
        """Make a whole search."""
        runner = self.runner(**changes)
        return runner.findings(reason=runner.run(lambda: None))
