"""The original's training view: one fish is observed, and the school takes its action."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, BatchedEnvs, Bools, Ending, Start, StepBuffers
from longhaul.core.native import entry
from longhaul.core.settings import Settings
from longhaul.core.spaces import EnvSpec
from longhaul.core.state import State
from longhaul.tasks.fish.options import FishOptions
from longhaul.tasks.fish.world.school import SchoolFactory
from longhaul.tasks.fish.world.starts import FishStart
from longhaul.tasks.fish.world.world import world_stamp

TERM = "school_mean"
ROUND_ROBIN, RANDOM = range(2)


def _build_choose(stamp: int) -> Any:
    @entry
    def choose(
        active: Array, pointer: Array, stream: Array, env: int, fish: int, sampling: int
    ) -> int:
        """Return the row of the next fish to look at, or -1 if none is alive."""
        _ = stamp
        first = env * fish
        alive = 0
        for row in range(fish):
            alive += active[first + row]
        if alive == 0:
            return -1
        if sampling == RANDOM:
            word = stream[env]
            word ^= word >> np.uint64(12)
            word ^= word << np.uint64(25)
            word ^= word >> np.uint64(27)
            stream[env] = word
            place = int((word * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(33)) % alive
        else:
            place = pointer[env] % alive
            pointer[env] += 1
        for row in range(fish):
            if active[first + row]:
                if place == 0:
                    return row
                place -= 1
        return -1

    return choose


_choose = _build_choose(world_stamp())


@dataclass(frozen=True, slots=True)
class BroadcastFactory:
    """Makes batches of schools seen as one learner each; picklable."""

    options: FishOptions
    library: tuple[tuple[str, FishStart], ...] = ()

    def __call__(self, count: int) -> BroadcastSchools:
        """Return `count` schools."""
        return BroadcastSchools(self, count)

    @property
    def spec(self) -> EnvSpec:
        """The shapes and promises of one school, which is one row."""
        inner = SchoolFactory(self.options).spec
        return replace(inner, id="fish:broadcast", rows=1, terms=(TERM,))


def broadcast_envs(
    options: FishOptions, *, library: tuple[tuple[str, FishStart], ...] = ()
) -> BatchedEnvs:
    """Return the source of schools that act as one."""
    factory = BroadcastFactory(options, library)
    return BatchedEnvs(factory.spec, factory)


class BroadcastSchools:
    """Schools behind the `BatchedEnv` protocol, one row each.

    The reward is the mean over all fish, 0 for dead ones; fish are observed in turn or at random.
    """

    def __init__(self, factory: BroadcastFactory, count: int) -> None:
        options = factory.options
        self.spec = factory.spec
        self._schools = SchoolFactory(options, library=factory.library)(count)
        self._fish = options.fish
        self._sampling = RANDOM if options.sampling == "random" else ROUND_ROBIN
        self._inner = StepBuffers.allocate(self._schools.spec, count * self._fish)
        self._schools.bind(self._inner)
        self._pointer = np.zeros(count, np.int64)
        self._stream = np.ones(count, np.uint64)
        self._looked_at = np.full(count, -1, np.int64)
        self._slots = StepBuffers.allocate(self.spec, count)

    @property
    def count(self) -> int:
        """How many schools there are."""
        return self._schools.count

    @property
    def over(self) -> Bools:
        """[count], True for schools whose episode ended in the last step."""
        return self._schools.over

    @property
    def looked_at(self) -> NDArray[np.int64]:
        """[count], the fish each school's present observation is of; -1 if none is alive."""
        return self._looked_at

    def death_steps(self, env: int) -> NDArray[np.int32]:
        """Return the step each fish of one school died in so far, -1 for those alive."""
        return self._schools.death_steps(env)

    def bind(self, slots: StepBuffers) -> None:
        """Write into these arrays, one row per school."""
        self._slots = slots

    def reset(
        self, envs: NDArray[np.int64], seeds: NDArray[np.int64], starts: list[Start | None]
    ) -> None:
        """Begin an episode in each of `envs`."""
        self._schools.reset(envs, seeds, starts)
        self._pointer[envs] = 0
        # An odd word: the stream of a zero one would be zeros only.
        self._stream[envs] = seeds.astype(np.uint64) * np.uint64(2) + np.uint64(1)
        self._slots.active[envs] = True
        for env in envs.tolist():
            self._look(env)

    def step(self, begin: int, end: int, actions: Array) -> None:
        """Step schools `begin` to `end`; safe to call at once for disjoint ranges."""
        self._schools.step(begin, end, actions.repeat(self._fish))
        rows = slice(begin * self._fish, end * self._fish)
        inner, slots, some = self._inner, self._slots, slice(begin, end)
        sizes = self._schools.world.size[some]
        slots.reward[some] = inner.reward[rows].reshape(-1, self._fish).sum(axis=1) / sizes
        slots.terms[TERM][some] = slots.reward[some]
        cut = inner.truncated[rows].reshape(-1, self._fish).any(axis=1)
        slots.truncated[some] = cut
        slots.terminated[some] = self.over[some] & ~cut
        for env in range(begin, end):
            self._look(env)

    def ending(self, env: int) -> Ending:
        """Return how the episode of `env`, which is over, ended."""
        return self._schools.ending(env)

    def configure(self, settings: Settings) -> None:
        """Take settings into account from each school's next reset on."""
        self._schools.configure(settings)

    def frame(self, env: int) -> NDArray[np.uint8] | None:
        """Return the present picture of one school."""
        return self._schools.frame(env)

    def snapshot(self) -> State:
        """Return the state of all schools and of the looking."""
        return {
            "schools": self._schools.snapshot(),
            "pointer": self._pointer.copy(),
            "stream": self._stream.copy(),
            "looked_at": self._looked_at.copy(),
        }

    def restore(self, state: State) -> None:
        """Continue from a snapshot and write the slots."""
        self._schools.restore(state["schools"])
        self._pointer[...] = state["pointer"]
        self._stream[...] = state["stream"]
        self._looked_at[...] = state["looked_at"]
        for env in range(self.count):
            self._show(env)

    def close(self) -> None:
        """Free what the schools hold: nothing."""

    def _look(self, env: int) -> None:
        """Choose the fish to look at next and show what it sees."""
        self._looked_at[env] = _choose(
            self._inner.active, self._pointer, self._stream, env, self._fish, self._sampling
        )
        self._show(env)

    def _show(self, env: int) -> None:
        row = self._looked_at[env]
        seen = self._inner.obs["obs"][env * self._fish + row]
        self._slots.obs["obs"][env] = seen if row >= 0 else 0.0
