"""One history: a small trainer of real parts in a simulated world, watched step by step.

The environments, the supervisor, their workers and pipes, the recorder, its logs and checkpoints
are those of the product. What they stand on is simulated: processes, pipes, the clock and the disk.
"""

from __future__ import annotations

import hashlib
import random
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from longhaul.core.control import Progress, View
from longhaul.core.env import EnvEvent, Episode
from longhaul.core.errors import EnvError, ResourceError
from longhaul.core.seeds import DerivedSeeds, Seeds, generator_state, restore_generator
from longhaul.core.settings import Settings
from longhaul.core.state import State, Stateful
from longhaul.envs.config import ProcessesConfig
from longhaul.envs.faults import Fault, FaultPolicy, Listeners
from longhaul.runs.checkpoints.inspect import list_checkpoints
from longhaul.runs.checkpoints.manifest import Stamp
from longhaul.runs.checkpoints.store import CheckpointStore
from longhaul.runs.config import CheckpointConfig
from longhaul.runs.directory import (
    RunDirectory,
    begin_record,
    create_run,
    list_run_directories,
)
from longhaul.runs.lock import Clocks, RunLock
from longhaul.runs.logs.jsonl import SessionLog
from longhaul.runs.recorder import Recorder
from tests.durability.digests import differing, run_digest
from tests.durability.power import Loss
from tests.durability.simulation.chain import CHOICES, ChainEnv, ChainFactory
from tests.durability.simulation.disk import PowerCutError, SimulatedDisk
from tests.durability.simulation.watcher import (
    WORKLOADS,
    ViolationError,
    Watcher,
    Workload,
)
from tests.durability.simulation.world import SimulatedVectorEnv, World, in_threads

STEPS = 5
"""In an iteration."""
ITERATIONS = 10
STORM = 7
"""Iterations in which faults happen; after them there are none."""
CALM_SECONDS = 0.05
"""Most that an iteration may take without a fault: ten messages for each of its steps."""
MOST_SESSIONS = 60
ROTATE_BYTES = 600
GIBIBYTE = 1 << 30
SCARCE = ProcessesConfig(
    least_deadline_seconds=1.0,
    construct_seconds=4.0,
    reset_seconds=2.0,
    step_seconds=2.0,
    close_seconds=1.0,
    fewest_envs=0.01,
    memory_growth_mb=0,
)
"""What a user has, but less patient: envs and seeds may be given up, which must be said."""
AMPLE = replace(
    SCARCE,
    restarts_in_a_row=10**6,
    restarts_per_minute=10**6,
    construct_restarts=10**6,
    seed_strikes=10**6,
)
"""No env or seed is ever given up: the run must equal the undisturbed one."""


class Actor:
    """Draws the actions, and remembers its generator."""

    def __init__(self, seed: int) -> None:
        self._generator = Seeds(seed).generator("actions")

    def act(self, rows: int) -> np.ndarray:
        """Return an action for every row."""
        return self._generator.integers(0, CHOICES, rows)

    def state_dict(self) -> State:
        return {"generator": generator_state(self._generator)}

    def load_state_dict(self, state: State) -> None:
        restore_generator(self._generator, state["generator"])


@dataclass
class History:
    """What happened in one history."""

    seed: int
    is_exact: bool
    faults: Counter[str] = field(default_factory=Counter)
    sessions: int = 0
    steps: int = 0
    lost: int = 0
    said: str = ""
    """Why the trainer ended before its end, in its own words."""
    violation: str = ""

    @property
    def injected(self) -> int:
        """Faults of all kinds."""
        return self.faults.total()


class Trainer:
    """One session: it makes everything anew, restores, and trains to the end."""

    def __init__(self, simulation: Simulation, run: RunDirectory) -> None:
        self._of = simulation
        workload, world = simulation.workload, simulation.world
        clocks = Clocks(lambda: 1.8e9 + world.now, lambda: world.now)
        self.reported: list[Fault] = []
        self.env: SimulatedVectorEnv | None = None
        lock = RunLock(run.lock, clocks)
        config = CheckpointConfig(keep_last=2, reserve_megabytes=0)
        store = CheckpointStore(
            run.checkpoints,
            config,
            Stamp({"task": "chain"}, {}),
            clocks,
            free_bytes=lambda folder: GIBIBYTE,
        )
        self.env = SimulatedVectorEnv(
            ChainFactory(workload.tier).source(),
            workload.envs,
            DerivedSeeds(Seeds(workload.seed)),
            config=simulation.limits(workload.workers),
            faults=FaultPolicy(listeners=Listeners(on_fault=self.reported.append)),
        )
        self._actor = Actor(workload.seed)
        parts: dict[str, Stateful] = {"env": self.env, "actor": self._actor}
        self._recorder = Recorder(
            run, parts, store, lock, SessionLog(run, clocks), rotate_bytes=ROTATE_BYTES
        )

    def train(self) -> None:
        """Restore and train to the end."""
        env, of = self.env, self._of
        assert env is not None
        progress, settings = self._recorder.restore(Settings([]))
        of.restored(progress)
        if progress.iteration:
            watcher = of.kept[progress.iteration].copy()
            watcher.resume(env.slots.obs["obs"])
        else:
            env.reset()
            watcher = Watcher(of.workload)
            watcher.begin(env.slots.obs["obs"])
        while progress.iteration < ITERATIONS:
            if progress.iteration >= STORM:
                of.world.calm()
                of.disk.cut_at = 0
            before = of.world.now, of.world.rate
            progress = self._iterate(env, watcher, progress, settings)
            of.kept[progress.iteration] = watcher.copy()
            took = of.world.now - before[0]
            if progress.iteration > STORM + 1 and not before[1] and took > CALM_SECONDS:
                raise ViolationError(f"without faults an iteration took {took:.3f} s")
            if progress.iteration % 2 == 0:
                self._recorder.checkpoint(progress, settings)
                of.saved = progress.iteration
        self._recorder.close()

    def _iterate(
        self, env: SimulatedVectorEnv, watcher: Watcher, progress: Progress, settings: Settings
    ) -> Progress:
        digest, episodes = hashlib.sha256(), list[Episode]()
        events = list[EnvEvent]()
        for _ in range(STEPS):
            actions = self._actor.act(env.rows)
            step = env.step(actions)
            self._of.history.steps += env.rows
            self._of.history.lost += len(watcher.see(actions, step))
            digest.update(step.slots.obs["obs"].tobytes() + step.slots.reward.tobytes())
            episodes.extend(step.episodes)
            events.extend(step.events)
        progress = Progress(
            progress.iteration + 1,
            progress.env_steps + STEPS * env.rows,
            progress.episodes + len(episodes),
        )
        metrics = {"rollout/digest": float(int.from_bytes(digest.digest()[:6]))}
        self._recorder.record(View(progress, metrics, settings), events, episodes, {})
        return progress


class Simulation:
    """A world, a disk and the sessions of one run in them."""

    def __init__(self, seed: int, folder: Path, expected: dict[Workload, dict[str, str]]) -> None:
        self._chance = random.Random(seed)
        self.workload = WORKLOADS[seed % len(WORKLOADS)]
        self.is_exact = seed // len(WORKLOADS) % 4 != 3
        self.history = History(seed, self.is_exact)
        rate = self._chance.choice((0.001, 0.004, 0.015))
        self.world = World(random.Random(seed ^ 0x5EED), rate=rate, raises=not self.is_exact)
        self.kept: dict[int, Watcher] = {}
        self.saved = 0
        self._top = folder / "top"
        self._top.mkdir()
        self.disk = SimulatedDisk(self._top)
        self._expected = expected

    def limits(self, workers: int) -> ProcessesConfig:
        """Return how many faults are tolerated."""
        return replace(AMPLE if self.is_exact else SCARCE, workers=workers)

    def restored(self, progress: Progress) -> None:
        """Refuse a run that lost a checkpoint."""
        if progress.iteration < self.saved:
            raise ViolationError(
                f"iteration {self.saved} was saved, the run goes on from {progress.iteration}"
            )

    def run(self) -> History:
        """Live through the history."""
        ChainEnv.world = self.world
        try:
            with in_threads(self.world), self.disk.in_use():
                self._sessions()
        except ViolationError as error:
            self.history.violation = str(error)
        except Exception as error:  # noqa: BLE001 - anything else is a finding as well
            self.history.violation = repr(error)
        finally:
            self.world.abandon()
            self.history.faults += self.world.injected
            shutil.rmtree(self._top)
        return self.history

    def _sessions(self) -> None:
        while self.history.sessions < MOST_SESSIONS:
            self.history.sessions += 1
            self._plan_cut()
            if self._session():
                return
        raise ViolationError(f"not finished after {MOST_SESSIONS} sessions")

    def _plan_cut(self) -> None:
        disk, chance = self.disk, self._chance
        disk.cut_at, disk.is_full = 0, False
        if self.world.rate and chance.random() < 0.75:
            disk.cut_at = disk.changes + chance.randint(1, 220)
            disk.cuts_after = chance.random() < 0.5
        elif self.world.rate and chance.random() < 0.3:
            disk.is_full = True
            self.history.faults["the disk is full"] += 1

    def _session(self) -> bool:
        """Train until the end or the next cut; return whether it is over."""
        trainer: Trainer | None = None
        try:
            runs = self._runs()
            run = runs[-1] if runs else self._new_run()
            trainer = Trainer(self, run)
            trainer.train()
            self._finish(run)
        except PowerCutError:
            self._cut()
            return False
        except ResourceError:
            if not self.disk.is_full:
                raise
            return False
        except EnvError as error:
            if self.is_exact:
                raise
            self.history.said = str(error).splitlines()[0]
            return True
        finally:
            if problems := self.world.problems():
                raise ViolationError(f"the program of a worker failed: {problems[0]}")
            self.world.abandon()
            if trainer is not None and trainer.env is not None:
                trainer.env.close()
            self.disk.release()
        return True

    def _runs(self) -> list[RunDirectory]:
        folder = self._top / "runs" / "chain"
        return list_run_directories(folder) if folder.exists() else []

    def _new_run(self) -> RunDirectory:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        record = begin_record("chain", "run", self.workload.seed, now=now, command=["chain"])
        return create_run(self._top / "runs", record, "")

    def _cut(self) -> None:
        loss: Loss = self._chance.choice(("everything", "some", "nothing"))
        self.history.faults[f"power cut, {loss} is lost"] += 1
        self.disk.cut(loss, self._chance)
        self._rot()

    def _rot(self) -> None:
        """Damage the newest checkpoint, if there is one before it."""
        for run in self._runs():
            found = list_checkpoints(run.checkpoints)
            if len(found) < 2 or self._chance.random() > 0.2:
                continue
            self.history.faults["a checkpoint is damaged"] += 1
            part = self._chance.choice(sorted(found[0].iterdir()))
            content = bytearray(part.read_bytes())
            content[self._chance.randrange(len(content))] ^= 0x10
            self.disk.damage(part, bytes(content))
            self.saved = 0

    def _finish(self, run: RunDirectory) -> None:
        digest = run_digest(run)
        if not self.is_exact:
            return
        if self.history.lost:
            raise ViolationError(f"{self.history.lost} transitions were lost")
        if self.workload not in self._expected:
            self._expected[self.workload] = digest
        if different := differing(self._expected[self.workload], digest):
            raise ViolationError(f"{', '.join(different)} differ from the undisturbed run")


def undisturbed(folder: Path) -> dict[Workload, dict[str, str]]:
    """Return the digests of all workloads without any fault."""
    expected: dict[Workload, dict[str, str]] = {}
    for number in range(len(WORKLOADS)):
        simulation = Simulation(number, folder, expected)
        simulation.world.calm()
        history = simulation.run()
        if history.violation or history.injected or history.sessions != 1:
            raise RuntimeError(f"the undisturbed run failed: {history}")
    return expected


def simulate(
    seeds: Iterable[int], folder: Path, expected: dict[Workload, dict[str, str]]
) -> Iterator[History]:
    """Live through the histories of these seeds."""
    for seed in seeds:
        yield Simulation(seed, folder, expected).run()
