"""What a simulated run must show at every step, known from seeds and actions alone."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import numpy as np

from longhaul.core.env import Episode, Step
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.core.spaces import Tier
from tests.durability.simulation.chain import Link


class ViolationError(AssertionError):
    """Something happened that must never happen."""


@dataclass(frozen=True)
class Workload:
    """What is trained."""

    envs: int
    workers: int
    tier: Tier
    seed: int

    @classmethod
    def numbered(cls, number: int) -> Workload:
        """Return one of a few: their undisturbed runs are trained once."""
        envs = (1, 3, 4, 5)[number % 4]
        tier = Tier.SNAPSHOT if number % 2 else Tier.REPLAY
        return cls(envs, min(envs, 1 + number % 3), tier, number)


WORKLOADS = tuple(Workload.numbered(number) for number in range(8))


@dataclass
class Watcher:
    """Knows what every environment must show, from its seed and the actions alone."""

    workload: Workload
    links: list[Link] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)
    """Environments that lost their worker."""

    def copy(self) -> Watcher:
        """Return the same, to go on from here."""
        return copy.deepcopy(self)

    def resume(self, obs: np.ndarray) -> None:
        """Take it that a resumed run has a worker again for every environment."""
        for env in sorted(self.gone):
            self._open(env, obs[env])
        self.gone.clear()

    def begin(self, obs: np.ndarray) -> None:
        """Take the first observations."""
        count = self.workload.envs
        self.links, self.numbers = [Link.first(0)] * count, [-1] * count
        self.returns = [0.0] * count
        for env in range(count):
            self._open(env, obs[env])

    def _open(self, env: int, obs: np.ndarray) -> None:
        """Find the episode that began: the next one, or a later one if seeds were given up."""
        seeds = DerivedSeeds(Seeds(self.workload.seed))
        for number in range(self.numbers[env] + 1, self.numbers[env] + 40):
            link = Link.first(seeds.seed(env, number))
            if tuple(obs.tolist()) == link.obs:
                self.links[env], self.numbers[env], self.returns[env] = link, number, 0.0
                return
        raise ViolationError(f"env {env} shows {obs.tolist()}, which begins no next episode")

    def see(self, actions: np.ndarray, step: Step) -> list[int]:
        """Compare one step with what must have happened; return the envs whose outcome is lost."""
        slots, lost = step.slots, []
        ended = {episode.env: episode for episode in step.episodes}
        for env in range(self.workload.envs):
            if not slots.active[env]:
                lost.append(env)
                self.gone.add(env)
                continue
            if slots.lost[env]:
                lost.append(env)
                self._open(env, slots.obs["obs"][env])
                continue
            self._follow(env, int(actions[env]), step, ended)
        return lost

    def _follow(self, env: int, action: int, step: Step, ended: dict[int, Episode]) -> None:
        link = self.links[env] = self.links[env].after(action)
        slots = step.slots
        self.returns[env] += link.reward
        if slots.reward[env] != link.reward or slots.terminated[env] != link.is_over:
            raise ViolationError(f"env {env}, step {link.steps}: not the outcome of its action")
        if not link.is_over:
            if tuple(slots.obs["obs"][env].tolist()) != link.obs or env in ended:
                raise ViolationError(f"env {env}, step {link.steps}: not its observation")
            return
        episode = ended.get(env)
        found = None if episode is None else (episode.number, episode.length)
        if found != (self.numbers[env], link.steps):
            raise ViolationError(f"env {env}: the episode that ended is recorded as {found}")
        assert episode is not None
        if episode.episode_return != self.returns[env]:
            raise ViolationError(f"env {env}: an episode's return is {episode.episode_return}")
        self._open(env, slots.obs["obs"][env])
