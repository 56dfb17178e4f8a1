"""The predecessor's environment in plain Python, for comparison: one school.

Every fish is an object, and Python loops over the fish and their neighbors compute movement, reward
and observation. One fish is observed, and all fish take its action. Tests check that it equals the
compiled world; it is only slower.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from longhaul.tasks.fish.options import FishOptions
from longhaul.tasks.fish.world.school import SchoolFactory

Vector = NDArray[np.float32]

RADIUS, STEP, VISION = 10.0, 0.1, 10.0 / 3.0
TURN = math.pi / 6


def _length(vector: Vector) -> float:
    return math.sqrt(float(vector[0] * vector[0] + vector[1] * vector[1]))


def _turned(vector: Vector, angle: float) -> Vector:
    cosine, sine = math.cos(angle), math.sin(angle)
    x, y = float(vector[0]), float(vector[1])
    return np.array([x * cosine - y * sine, x * sine + y * cosine], np.float32)


@dataclass(slots=True)
class OriginalBody:
    """A fish or the predator."""

    position: Vector
    velocity: Vector
    alive: bool = True

    def glide(self, bounce: float) -> None:
        """Move on for one step and bounce off the wall."""
        self.position = self.position + self.velocity * np.float32(STEP)
        distance = _length(self.position)
        if distance > RADIUS:
            normal = self.position / np.float32(distance)
            outwards = normal * np.float32(self.velocity @ normal)
            self.velocity = self.velocity - outwards - np.float32(bounce) * outwards
            self.position = normal * np.float32(RADIUS)

    def swim(self, action: int) -> None:
        """Do one of the five things a fish can do."""
        speed = _length(self.velocity)
        heading = (
            self.velocity / np.float32(speed) if speed > 0.01 else np.array([1.0, 0.0], np.float32)
        )
        if action == 0:
            self.velocity = self.velocity + heading * np.float32(STEP)
        elif action in (1, 2):
            turn = TURN if action == 1 else -TURN
            self.velocity = _turned(heading, turn) * np.float32(speed)
        elif action == 3:
            self.velocity = self.velocity * np.float32(0.9)
        speed = _length(self.velocity)
        if speed > 2.0:
            self.velocity = self.velocity / np.float32(speed) * np.float32(2.0)
        self.glide(0.5)


class PredecessorEnv(gym.Env[NDArray[np.float32], np.int64]):
    """One school that looks like one learner, in plain Python."""

    def __init__(self, options: FishOptions) -> None:
        self._options = options
        # Only for the starts: both worlds draw the same ones and can be compared.
        self._starts = SchoolFactory(options)(1)
        inputs = self._starts.spec.observation["obs"].shape
        self.observation_space = gym.spaces.Box(-10.0, 10.0, inputs, np.float32)
        self.action_space = gym.spaces.Discrete(5)
        self._fish: list[OriginalBody] = []
        self._predator = OriginalBody(np.zeros(2, np.float32), np.zeros(2, np.float32))
        self._elapsed = 0
        self._pointer = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode; without a seed, with one that is drawn."""
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(2**31)) if seed is None else seed
        self._starts.reset(np.array([0]), np.array([drawn]), [None])
        world = self._starts.world
        self._fish = [OriginalBody(body[:2].copy(), body[2:].copy()) for body in world.fish[0]]
        predator = world.predators[0, 0]
        self._predator = OriginalBody(predator[:2].copy(), predator[2:].copy())
        self._elapsed = self._pointer = 0
        return self._look(self._observations()), {}

    def step(
        self, action: np.int64 | int
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Take the same action with every live fish."""
        self._elapsed += 1
        before = [fish for fish in self._fish if fish.alive]
        for fish in before:
            fish.swim(int(action))
        self._predator.velocity = self._predator.velocity + np.array([0.0, 0.05], np.float32)
        self._predator.glide(0.85)
        reward = 0.0
        for fish in before:
            if _length(fish.position - self._predator.position) < 0.7:
                fish.alive = False
                reward -= 50.0
        for fish in before:
            if fish.alive:
                reward += self._reward(fish)
        seen = self._observations()
        over = not seen or self._elapsed >= self._options.time_limit
        return self._look(seen), reward / len(self._fish), over, False, {"alive": len(seen)}

    def _look(self, seen: list[NDArray[np.float32]]) -> NDArray[np.float32]:
        """Return the observation of the next fish in turn; zeros if none is left."""
        if not seen:
            return np.zeros(self.observation_space.shape or (), np.float32)
        shown = seen[self._pointer % len(seen)]
        self._pointer += 1
        return shown

    def _neighbors(self, fish: OriginalBody) -> list[tuple[float, OriginalBody]]:
        found = []
        for other in self._fish:
            if other is not fish and other.alive:
                distance = _length(other.position - fish.position)
                if distance <= self._options.neighbors.radius:
                    found.append((distance, other))
        return found

    def _reward(self, fish: OriginalBody) -> float:
        paid = 2.0
        distance = _length(fish.position - self._predator.position)
        paid += 10 * distance / VISION if distance < VISION else 5.0
        gap = RADIUS - _length(fish.position)
        if gap < 1:
            paid -= 2 * (1 - gap)
        reward = self._options.reward
        if reward.density_penalty or reward.divergence:
            neighbors = self._neighbors(fish)
            density = len(neighbors) / self._options.neighbors.average_count
            paid -= reward.density_penalty * max(density - reward.density_target, 0.0)
            if neighbors:
                paid += reward.divergence * self._divergence(fish, neighbors)
        return 0.1 * paid

    @staticmethod
    def _divergence(fish: OriginalBody, neighbors: list[tuple[float, OriginalBody]]) -> float:
        along = [
            float(other.velocity @ (other.position - fish.position)) / distance if distance else 0.0
            for distance, other in neighbors
        ]
        return float(np.mean(along)) / 2

    def _observations(self) -> list[NDArray[np.float32]]:
        return [self._observe(fish) for fish in self._fish if fish.alive]

    def _observe(self, fish: OriginalBody) -> NDArray[np.float32]:
        seen = np.zeros(self.observation_space.shape or (), np.float32)
        seen[0:2] = fish.position / 10
        seen[2:4] = fish.velocity / 2
        seen[4] = (RADIUS - _length(fish.position)) / RADIUS
        way = self._predator.position - fish.position
        distance = _length(way)
        if distance < VISION:
            seen[5] = 1.0
            seen[6:8] = way / VISION
            seen[8:10] = self._predator.velocity / 2
            seen[10] = distance / VISION
        if self._options.neighbors.inputs:
            self._observe_neighbors(fish, seen)
        return seen

    def _observe_neighbors(self, fish: OriginalBody, seen: NDArray[np.float32]) -> None:
        neighbors = self._neighbors(fish)
        if not neighbors:
            return
        options = self._options.neighbors
        nearest = sorted(neighbors, key=lambda pair: pair[0])[: options.average_count]
        ways = [other.position - fish.position for _, other in nearest]
        speeds = [_length(other.velocity) for _, other in neighbors]
        seen[11] = min(len(neighbors) / options.average_count, 1.0)
        seen[12:14] = np.mean(ways, axis=0) / options.radius
        seen[14] = nearest[0][0] / options.radius
        seen[15] = np.mean(speeds) / 2
        seen[16] = np.std(speeds) / 2
        seen[17] = self._divergence(fish, neighbors)
