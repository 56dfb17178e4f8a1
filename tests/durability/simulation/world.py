"""Worker processes, pipes and a clock that are decided by one seed.

Each simulated process is a thread that runs the real program of a worker, but only while it holds
the baton: at any moment one thread runs, and which one is next follows from the clock, which only
the simulation moves. A process can die, hang or be slow wherever an environment or a pipe lets it.
"""

from __future__ import annotations

import heapq
import itertools
import random
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, cast

from longhaul.envs.processes import worker as worker_program
from longhaul.envs.processes.descendants import Guard
from longhaul.envs.processes.messages import HEADER, SLICE_SECONDS, Channel, Kind
from longhaul.envs.processes.process import WorkerProcess, WorkerSystem
from longhaul.envs.processes.vector import ProcessVectorEnv

LATENCY = (20e-6, 200e-6)
"""Seconds that a message takes."""
STOPPED_SECONDS = 3600.0
FOREVER = 1e9
FIRST_PID = 10_000_000
"""Above any that Linux gives, so that nothing real is meant by accident."""


class KilledError(BaseException):
    """Ends the thread of a process, whatever it is doing."""


class World:
    """The clock, what is going to happen, and the processes there are."""

    def __init__(self, chance: random.Random, *, rate: float, raises: bool = True) -> None:
        self.chance = chance
        self.rate = rate
        """How probable a fault is wherever one is possible."""
        self.raises = raises
        """Whether environments may also raise in resets and replays."""
        self.now = 0.0
        self.running: SimulatedProcess | None = None
        self.injected: Counter[str] = Counter()
        self.lethal = 0
        """Faults that a worker cannot survive."""
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._pipes: dict[int, Pipe] = {}
        self._processes: list[SimulatedProcess] = []

    def system(self) -> WorkerSystem:
        """Return what a fleet is given instead of the operating system."""
        return WorkerSystem(
            start=self._start,
            guard=lambda mark: cast(Guard, NoGuard()),
            ready=self._ready,
            monotonic=lambda: self.now,
        )

    def _start(
        self, worker: int, generation: int, memory: int, *, output: Path | None, mark: str
    ) -> WorkerProcess:
        process = SimulatedProcess(self, worker, generation, memory)
        self._processes.append(process)
        self._pipes[process.pipe.fileno()] = process.pipe
        if self.strikes("dies while it boots"):
            self.lethal += 1
            self.at(self.now + self.delay(), lambda: process.end(-11))
        else:
            self.at(self.now + self.delay(), process.resume)
        return process

    def _ready(self, descriptors: Collection[int], seconds: float) -> list[int]:
        def those() -> list[int]:
            return [one for one in descriptors if self._pipes[one].speaks]

        self.advance(lambda: bool(those()), seconds)
        return those()

    def at(self, moment: float, act: Callable[[], None]) -> None:
        """Let something happen; what was planned first is first at the same moment."""
        heapq.heappush(self._events, (moment, next(self._numbers), act))

    def advance(self, done: Callable[[], bool], seconds: float) -> None:
        """Let time pass until something is done, but at most so long."""
        limit = self.now + seconds
        while not done():
            if not self._events or self._events[0][0] > limit:
                self.now = max(self.now, limit)
                return
            moment, _, act = heapq.heappop(self._events)
            self.now = max(self.now, moment)
            act()

    def delay(self) -> float:
        """Return how long the next message takes."""
        return self.chance.uniform(*LATENCY)

    def strikes(self, fault: str, share: float = 1.0) -> bool:
        """Whether this fault happens now."""
        happens = self.rate > 0 and self.chance.random() < self.rate * share
        self.injected[fault] += happens
        return happens

    def calm(self) -> None:
        """Let no more faults happen, and forget those under way in pipes."""
        self.rate = 0.0

    def abandon(self) -> None:
        """End all processes, as the end of the trainer does."""
        for process in self._processes:
            process.end(-9)
        self._processes.clear()
        self._pipes.clear()
        self._events.clear()

    def problems(self) -> list[str]:
        """Return what went wrong in the program of a worker."""
        return [repr(one.error) for one in self._processes if one.error is not None]


class SimulatedVectorEnv(ProcessVectorEnv):
    """Environments in the workers of the world that is entered."""

    system: WorkerSystem


class NoGuard:
    """Ends nothing."""

    def close(self) -> None:
        """End nothing."""


class Pipe:
    """The trainer's end of the line to a process, as a socket."""

    _numbers = itertools.count(1)

    def __init__(self, process: SimulatedProcess) -> None:
        self._process = process
        self._number = next(self._numbers)
        self.inbox = bytearray()
        self.is_over = False
        """Whether the other end is closed."""
        self.is_closed = False

    @property
    def speaks(self) -> bool:
        """Whether there is something to read."""
        return bool(self.inbox) or self.is_over

    def setsockopt(self, level: int, name: int, value: bytes) -> None:
        """Do nothing: a receive waits for a slice of time."""

    def fileno(self) -> int:
        """Return a number for this pipe."""
        return self._number

    def send(self, content: bytes) -> int:
        """Send an order."""
        world = self._process.world
        if self._process.is_over:
            raise BrokenPipeError("the process is gone")
        if world.strikes("the trainer is stopped for an hour", 0.1):
            world.now += STOPPED_SECONDS
        self._process.inbox.extend(content)
        if len(content) >= HEADER.size:
            self._process.order = HEADER.unpack(content[: HEADER.size])[2]
        world.at(world.now + world.delay(), self._process.read)
        return len(content)

    def sendall(self, content: bytes) -> None:
        """Send an order."""
        self.send(content)

    def recv(self, size: int) -> bytes:
        """Return what has come within a slice of time."""
        self._process.world.advance(lambda: self.speaks, SLICE_SECONDS)
        if not self.speaks:
            raise BlockingIOError
        found = bytes(self.inbox[:size])
        del self.inbox[:size]
        return found

    def close(self) -> None:
        """Take nothing any more."""
        self.is_closed = True
        self._process.read()


class WorkerEnd:
    """The process's end of the line, as a socket."""

    def __init__(self, process: SimulatedProcess) -> None:
        self._process = process

    def recv(self, size: int) -> bytes:
        """Return what the trainer sent; wait for it."""
        process = self._process
        while not process.inbox:
            if process.pipe.is_closed:
                return b""
            process.wait(FOREVER, is_reading=True)
        found = bytes(process.inbox[:size])
        del process.inbox[:size]
        return found

    def sendall(self, content: bytes) -> None:
        """Send an answer or a mark, perhaps torn, late or twice."""
        process, world = self._process, self._process.world
        is_answer = HEADER.unpack(content[: HEADER.size])[2] == Kind.ANSWER
        if world.strikes("dies within a message", 0.3):
            world.lethal += 1
            process.deliver(content[: world.chance.randrange(1, len(content))])
            process.die()
        if world.strikes("sends a message in two parts"):
            cut = world.chance.randrange(1, len(content))
            process.deliver(content[:cut])
            process.deliver(content[cut:], world.chance.uniform(0.0, 0.5))
            return
        process.deliver(content)
        if is_answer and world.strikes("answers twice"):
            process.deliver(content, world.chance.uniform(0.0, 0.01))


class SimulatedPopen:
    """What is known of a process from outside."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.status: int | None = None

    def poll(self) -> int | None:
        """Return how the process ended, None while it runs."""
        return self.status


class SimulatedProcess(WorkerProcess):
    """A process that is a thread."""

    _pids = itertools.count(FIRST_PID)

    def __init__(self, world: World, worker: int, generation: int, memory: int) -> None:
        self.world = world
        self.pipe = Pipe(self)
        self.inbox = bytearray()
        self.order = 0
        self.is_over = False
        self.error: BaseException | None = None
        self._end = SimulatedPopen(next(self._pids))
        self._is_killed = False
        self._is_reading = False
        self._rest = 0
        self._said_at = 0.0
        # Locks that one thread takes and the other gives back; both begin taken.
        self._turn, self._back = threading.Lock(), threading.Lock()
        self._turn.acquire()
        self._back.acquire()
        super().__init__(
            worker,
            Channel(cast(socket.socket, self.pipe), generation),
            cast("subprocess.Popen[bytes]", self._end),
            cast(BinaryIO, BytesIO()),
        )
        line = cast(socket.socket, WorkerEnd(self))
        self._thread = threading.Thread(
            target=self._run, args=(line, memory, generation), daemon=True
        )
        self._thread.start()

    def _run(self, line: socket.socket, memory: int, generation: int) -> None:
        self._turn.acquire()
        try:
            if not self._is_killed:
                worker_program.serve(line, memory, generation)
            self._over(0)
        except KilledError:
            self._over(-9)
        except BaseException as error:  # noqa: BLE001 - reported by the simulation
            self.error = error
            self._over(1)
        finally:
            self._back.release()

    def _over(self, status: int) -> None:
        self.is_over = True
        self._end.status = status
        if not self.world.strikes("leaves a child that holds its pipe"):
            self.deliver(b"")

    def resume(self) -> None:
        """Let the process run until it waits."""
        if self.is_over:
            return
        before, self.world.running = self.world.running, self
        self._turn.release()
        self._back.acquire()
        self.world.running = before
        if self.is_over:
            self._thread.join()

    def wait(self, seconds: float, *, is_reading: bool = False) -> None:
        """Give the baton back, in the process, for so long or until something comes."""
        self._is_reading = is_reading
        self._rest += 1
        rest = self._rest
        if seconds < FOREVER:
            world = self.world
            world.at(world.now + seconds, lambda: self.resume() if rest == self._rest else None)
        self._back.release()
        self._turn.acquire()
        self._rest += 1
        self._is_reading = False
        if self._is_killed:
            raise KilledError

    def read(self) -> None:
        """Wake the process if it waits for the trainer."""
        if self._is_reading:
            self.resume()

    def deliver(self, content: bytes, late: float = 0.0) -> None:
        """Bring bytes to the trainer, in order; none for the end of the line."""
        world = self.world
        self._said_at = max(self._said_at, world.now + world.delay() + late)

        def arrive() -> None:
            self.pipe.inbox.extend(content)
            self.pipe.is_over |= not content

        world.at(self._said_at, arrive)

    def die(self) -> None:
        """End, in the process."""
        self._is_killed = True
        raise KilledError

    def end(self, status: int) -> None:
        """End, from outside."""
        if not self.is_over:
            self._is_killed = True
            self.resume()
            self._end.status = status

    def kill(self) -> str:
        """Kill the process and return how it ended."""
        status = self._end.status
        self.end(-9)
        self.channel.close()
        return "was killed by SIGKILL" if status in (None, -9) else f"exited with {status}"

    def end_leftovers(self) -> None:
        """Do nothing: it has no children."""

    def leave_note(self) -> None:
        """Do nothing: it writes no stack."""

    def stack(self) -> str:
        """Return no stack."""
        return ""

    def crash_note(self) -> str:
        """Return no note."""
        return ""


@contextmanager
def in_threads(world: World) -> Iterator[None]:
    """Let the program of a worker run in a thread: signals are the real process's own."""
    program: Any = worker_program
    kept = program.leave_signals_to_the_trainer, program.time
    SimulatedVectorEnv.system = world.system()
    program.leave_signals_to_the_trainer = lambda: None
    program.time = SimulatedTime(world)
    try:
        yield
    finally:
        program.leave_signals_to_the_trainer, program.time = kept


class SimulatedTime:
    """The part of `time` that workers use."""

    def __init__(self, world: World) -> None:
        self._world = world

    def perf_counter_ns(self) -> int:
        """Return the simulated time."""
        return int(self._world.now * 1e9)
