"""The fish's world written like the sentences that describe it: slow, and easy to check by eye."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]

R, DT, VISION = 10.0, 0.1, 10.0 / 3.0


def vector(x: float, y: float) -> Vector:
    return np.array([x, y], np.float32)


def norm(v: Vector) -> np.float32:
    return np.float32(np.sqrt(np.float32(v[0] * v[0] + v[1] * v[1])))


def rotate(v: Vector, angle: float) -> Vector:
    c, s = np.float32(math.cos(angle)), np.float32(math.sin(angle))
    return vector(v[0] * c - v[1] * s, v[0] * s + v[1] * c)


@dataclass
class Body:
    position: Vector
    velocity: Vector

    def move(self, restitution: float) -> None:
        """Position += v*dt; if |position| > R: v = vt - restitution * vn and position = n R."""
        self.position = self.position + self.velocity * np.float32(DT)
        distance = norm(self.position)
        if distance > R:
            n = self.position / distance
            vn = n * np.float32(self.velocity @ n)
            vt = self.velocity - vn
            self.velocity = vt - np.float32(restitution) * vn
            self.position = n * np.float32(R)


@dataclass
class Fish(Body):
    alive: bool = True
    death_step: int = -1

    def act(self, action: int) -> None:
        v = self.velocity
        s = norm(v)
        d = v / s if s > 0.01 else vector(1, 0)
        match action:
            case 0:
                v = v + d * np.float32(DT)
            case 1:
                v = rotate(d, math.pi / 6) * s
            case 2:
                v = rotate(d, -math.pi / 6) * s
            case 3:
                v = v * np.float32(0.9)
        if norm(v) > 2.0:
            v = v / norm(v) * np.float32(2.0)
        self.velocity = v
        self.move(0.5)


@dataclass
class LiteralSchool:
    """One school with the original's step, inputs and reward."""

    fish: list[Fish]
    predator: Body
    neighbor_radius: float = 3.0
    average_count: int = 6
    density_penalty: float = 0.0
    density_target: float = 0.4
    divergence_reward: float = 0.0
    elapsed: int = 0

    def step(self, actions: list[int]) -> None:
        self.elapsed += 1
        for fish, action in zip(self.fish, actions, strict=True):
            if fish.alive:
                fish.act(action)
        self.predator.velocity = self.predator.velocity + vector(0, 0.05)
        self.predator.move(0.85)
        for fish in self.fish:
            if fish.alive and norm(fish.position - self.predator.position) < 0.7:
                fish.alive = False
                fish.death_step = self.elapsed

    def neighbors(self, fish: Fish) -> list[Fish]:
        return [
            other
            for other in self.fish
            if other is not fish
            and other.alive
            and norm(other.position - fish.position) <= self.neighbor_radius
        ]

    def divergence(self, fish: Fish) -> float:
        """Mean of the neighbors' velocities along the line from this fish to them, over 2."""
        along = []
        for other in self.neighbors(fish):
            line = other.position - fish.position
            along.append(float(other.velocity @ line / norm(line)))
        return float(np.mean(along)) / 2

    def reward(self, fish: Fish) -> float:
        if not fish.alive:
            return -50.0 if fish.death_step == self.elapsed else 0.0
        total = 2.0
        distance = float(norm(fish.position - self.predator.position))
        total += 10 * distance / VISION if distance < VISION else 5.0
        gap = R - float(norm(fish.position))
        if gap < 1:
            total -= 2 * (1 - gap)
        if neighbors := self.neighbors(fish):
            density = len(neighbors) / self.average_count
            total -= self.density_penalty * max(density - self.density_target, 0)
            total += self.divergence_reward * self.divergence(fish)
        return 0.1 * total

    def observation(self, fish: Fish, *, neighbor_features: bool = False) -> list[float]:
        inputs = [0.0] * 11
        inputs[0:2] = (fish.position / 10).tolist()
        inputs[2:4] = (fish.velocity / 2).tolist()
        inputs[4] = (10 - float(norm(fish.position))) / 10
        way = self.predator.position - fish.position
        if norm(way) < VISION:
            inputs[5] = 1.0
            inputs[6:8] = (way / VISION).tolist()
            inputs[8:10] = (self.predator.velocity / 2).tolist()
            inputs[10] = float(norm(way)) / VISION
        return inputs + (self.features(fish) if neighbor_features else [])

    def features(self, fish: Fish) -> list[float]:
        neighbors = self.neighbors(fish)
        if not neighbors:
            return [0.0] * 7
        ways = sorted((n.position - fish.position for n in neighbors), key=norm)
        mean_way = np.mean(ways[: self.average_count], axis=0) / self.neighbor_radius
        speeds = [float(norm(n.velocity)) for n in neighbors]
        return [
            min(len(neighbors) / self.average_count, 1.0),
            float(mean_way[0]),
            float(mean_way[1]),
            float(norm(ways[0])) / self.neighbor_radius,
            float(np.mean(speeds)) / 2,
            float(np.std(speeds)) / 2,
            self.divergence(fish),
        ]


def reset_literally(seed: int, fish_count: int, *, training: bool, boost: float) -> LiteralSchool:
    """Draw one number after another, as the original's reset did."""
    rng = np.random.default_rng(seed)
    fish = []
    for _ in range(fish_count):
        angle, radius = rng.uniform(0, 2 * math.pi), rng.uniform(0, 8.0)
        heading, speed = rng.uniform(0, 2 * math.pi), rng.uniform(0, 1.0)
        position = vector(radius * math.cos(angle), radius * math.sin(angle))
        velocity = vector(speed * math.cos(heading), speed * math.sin(heading))
        fish.append(Fish(position, velocity))
    predator = Body(vector(0, 0), vector(1.5, 0))
    if training:
        for one in fish:
            angle = rng.normal(0.0, 0.35)
            one.velocity = rotate(one.position / norm(one.position), angle) * np.float32(2 * boost)
        radius, angle = rng.uniform(0, 1.6), rng.uniform(0, 2 * math.pi)
        predator.position = vector(radius * math.cos(angle), radius * math.sin(angle))
        heading = math.radians(pick(rng, HEADINGS))
        predator.velocity = vector(1.5 * math.cos(heading), 1.5 * math.sin(heading))
        for _ in range(16):
            predator.velocity = rotate(predator.velocity, rng.uniform(-0.3, 0.3))
            predator.velocity = predator.velocity * np.float32(
                max(0.05, 1 + rng.uniform(-0.2, 0.2))
            )
            speed = pick(rng, SPEEDS)
            present = norm(predator.velocity)
            predator.velocity = predator.velocity / present * np.float32(speed)
            predator.velocity = predator.velocity + vector(0, 0.05)
            predator.move(0.85)
    return LiteralSchool(fish, predator)


# The sector from 330 to 360 degrees is missing: the original lost it.
HEADINGS = [
    (0, 60, 1.1), (60, 90, 0.8), (90, 120, 0.08), (120, 150, 0.05), (150, 210, 0.9),
    (210, 270, 1.3), (270, 330, 1.2),
]  # fmt: skip
SPEEDS = [(0, 1.0, 1.6), (1.0, 1.6, 1.3), (1.6, 2.0, 0.7), (2.0, 2.4, 0.35), (2.4, 3.0, 0.2)]


def pick(rng: np.random.Generator, sectors: Sequence[tuple[float, float, float]]) -> float:
    """One draw on [0, total weight] selects a sector, one draw inside it gives the value."""
    wanted = rng.uniform(0, sum(weight for _, _, weight in sectors))
    chosen = 0
    while wanted > sectors[chosen][2] and chosen < len(sectors) - 1:
        wanted -= sectors[chosen][2]
        chosen += 1
    low, high, _ = sectors[chosen]
    return float(rng.uniform(low, high))
