"""Measuring how fast environments are stepped, by our runtimes and by others', in one run."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from longhaul.app.assemble import build_task
from longhaul.app.bench.training import Measured
from longhaul.app.config import RunConfig
from longhaul.app.gymnasium_id import GymnasiumId
from longhaul.app.peers.vectors import DRAWN, PEERS, TITLES, Advance
from longhaul.app.text import columns
from longhaul.app.trials import modes
from longhaul.core.env import EnvSource
from longhaul.core.errors import ConfigError
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.envs.build import Supervision, make_vector_env
from longhaul.envs.checks import allowed_actions, random_actions
from longhaul.envs.config import EnvConfig, Runtime
from longhaul.envs.processes.vector import share_out

WARM_UP_SHARE = 0.2
BATCH = 8  # steps between two looks at the clock

System = Callable[[], AbstractContextManager[Advance]]


@dataclass(frozen=True, slots=True)
class EnvBenchRequest:
    """What to measure."""

    num_envs: int = 16
    peer: str = "none"
    runtime: str = "both"
    seconds: float = 2.0
    repeats: int = 3

    def __post_init__(self) -> None:
        for flag, value in (("--num-envs", self.num_envs), ("--repeats", self.repeats)):
            if value < 1:
                raise ConfigError(f"{flag} must be at least 1, not {value}")
        if not self.seconds > 0:
            raise ConfigError(f"--seconds must be more than 0, not {self.seconds}")

    @property
    def peers(self) -> tuple[str, ...]:
        """The peers to measure."""
        choices = {"none": (), "all": tuple(PEERS), **{name: (name,) for name in PEERS}}
        if self.peer not in choices:
            raise ConfigError(f"--peer {self.peer!r} is not known; use one of {', '.join(choices)}")
        return choices[self.peer]


@dataclass(frozen=True, slots=True)
class EnvBenchmark:
    """Speeds measured in turn on one machine."""

    task: str
    conditions: str
    ours: tuple[Measured, ...]
    peers: tuple[Measured, ...]

    def ratios(self, ours: Measured, peer: Measured) -> tuple[float, ...]:
        """Return one of ours over a peer, repeat by repeat."""
        pairs = zip(ours.steps_per_second, peer.steps_per_second, strict=True)
        return tuple(a / b for a, b in pairs)

    def as_text(self) -> str:
        """Return a table of speeds and ratios."""
        rows = [
            (m.name, f"{m.median:,.0f}", " ".join(f"{s:,.0f}" for s in m.steps_per_second))
            for m in (*self.ours, *self.peers)
        ]
        blocks = [self.conditions, columns(rows, header=(self.task, "steps/s", "each repeat"))]
        if lines := [line for ours in self.ours for line in self._ratio_lines(ours)]:
            blocks.append(columns(lines, header=("ratio", "median", "each repeat")))
        return "\n\n".join(blocks)

    def _ratio_lines(self, ours: Measured) -> Iterator[tuple[str, str, str]]:
        for peer in self.peers:
            ratios = self.ratios(ours, peer)
            each = " ".join(f"{ratio:.2f}" for ratio in ratios)
            yield f"{ours.name} / {peer.name}", f"{statistics.median(ratios):.2f}", each

    def as_json(self) -> str:
        """Return the measurements for programs."""
        return json.dumps(
            {
                "task": self.task,
                "conditions": self.conditions,
                "steps_per_second": {m.name: m.steps_per_second for m in (*self.ours, *self.peers)},
                "ratios": {
                    ours.name: {peer.name: self.ratios(ours, peer) for peer in self.peers}
                    for ours in self.ours
                },
            }
        )


def bench_env(config: RunConfig, request: EnvBenchRequest) -> EnvBenchmark:
    """Measure our runtimes and the peers in turn on the same environment."""
    peers = request.peers
    named = GymnasiumId.of(config)
    if peers and named is None:
        raise ConfigError(f"--peer {request.peer} compares gym: tasks only")
    source = build_task(config).envs
    if source.spec.rows > 1 and peers:
        raise ConfigError(f"--peer {request.peer} compares environments of one row only")
    systems: dict[str, System] = {
        f"longhaul {mode}": partial(our_vector, source, mode, request.num_envs, config.env)
        for mode in modes(source, request.runtime)
    }
    ours = tuple(systems)
    if named is not None:
        for peer in peers:
            systems[TITLES[peer]] = partial(PEERS[peer], named, request.num_envs)
    rows = request.num_envs * source.spec.rows
    speeds: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(request.repeats):
        for name, system in systems.items():
            with system() as advance:
                speeds[name].append(rows * steps_per_second(advance, seconds=request.seconds))
    measured = {name: Measured(name, tuple(found)) for name, found in speeds.items()}
    return EnvBenchmark(
        config.task,
        conditions(source, config.env, request),
        tuple(measured[name] for name in ours),
        tuple(measured[name] for name in systems if name not in ours),
    )


def conditions(source: EnvSource, env: EnvConfig, request: EnvBenchRequest) -> str:
    """Return in one line what was measured."""
    shown = ", ".join(f"{p.dtype} {p.shape}" for p in source.spec.observation.values())
    workers = len(share_out(request.num_envs, env.processes.workers))
    return (
        f"{request.num_envs} envs that show {shown}; random actions drawn before; "
        f"{request.seconds:g} s each, in turn; longhaul's processes runtime has {workers} "
        "worker(s), the peers one process per env"
    )


@contextmanager
def our_vector(
    source: EnvSource, runtime: Runtime, num_envs: int, env: EnvConfig
) -> Iterator[Advance]:
    """Give one of our runtimes, reset and ready to step."""
    vector = make_vector_env(
        source,
        count=num_envs,
        seeds=DerivedSeeds(Seeds(1), "bench"),
        runtime=runtime,
        threads=env.threads,
        supervision=Supervision.of(env),
    )
    try:
        drawn = random_actions(replace(source.spec, rows=vector.rows), DRAWN, 1)
        vector.reset()

        def advance(number: int) -> None:
            vector.step(allowed_actions(source.spec, vector.slots, drawn[number % DRAWN]))

        yield advance
    finally:
        vector.close()


def steps_per_second(
    advance: Advance, *, seconds: float, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return vector steps a second, after a warm-up that does not count."""
    _advance_for(advance, seconds * WARM_UP_SHARE, clock)
    steps, took = _advance_for(advance, seconds, clock)
    return steps / took


def _advance_for(advance: Advance, seconds: float, clock: Callable[[], float]) -> tuple[int, float]:
    began = clock()
    steps = 0
    while (took := clock() - began) < seconds or not steps:
        for _ in range(BATCH):
            advance(steps)
            steps += 1
    return steps, took
