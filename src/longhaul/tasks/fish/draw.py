"""Pictures of a school, painted with NumPy alone."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longhaul.tasks.fish.world import CAPTURE, RADIUS, VISION

SIDE = 800
MARGIN = 24
SCALE = (SIDE / 2 - MARGIN) / float(RADIUS)
"""Pixels per unit of length."""
FISH_RADIUS = 0.2
PREDATOR_RADIUS = float(CAPTURE) - FISH_RADIUS

Picture = NDArray[np.float32]  # [SIDE, SIDE, 3], 0 to 255
Colour = tuple[float, float, float]

DEEP, SHALLOW, SHORE = (12.0, 38.0, 66.0), (28.0, 92.0, 120.0), (6.0, 14.0, 26.0)
RING, RING_DONE = (70.0, 100.0, 122.0), (236.0, 214.0, 150.0)
FISH, FISH_BELLY = (140.0, 214.0, 236.0), (236.0, 250.0, 252.0)
DEAD, PREDATOR, STONE = (150.0, 90.0, 100.0), (232.0, 84.0, 68.0), (84.0, 92.0, 98.0)


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is to see of one school."""

    fish: NDArray[np.float32]  # [fish, 4]: x, y, velocity; a dead one is where it died
    alive: NDArray[np.bool_]  # [fish]
    predators: NDArray[np.float32]  # [predators, 4]
    obstacles: NDArray[np.float32]  # [obstacles, 3]: x, y, radius
    elapsed: float = 0.0  # share of the episode that has passed
    trail: tuple[NDArray[np.float32], ...] = ()  # earlier `fish`, oldest first


def draw_scene(scene: Scene) -> NDArray[np.uint8]:
    """Return the picture of a scene, [800, 800, 3], +y up."""
    picture = _water().copy()
    _ring(picture, scene.elapsed)
    for x, y, radius in scene.obstacles:
        _disc(picture, (x, y), radius, STONE)
    for predator in scene.predators:
        _disc(picture, (predator[0], predator[1]), float(VISION), PREDATOR, strength=0.10)
    for age, earlier in enumerate(scene.trail):
        strength = 0.35 * (age + 1) / (len(scene.trail) + 1)
        for fish in earlier[scene.alive]:
            _disc(picture, (fish[0], fish[1]), 0.06, FISH, strength=strength)
    for fish in scene.fish[~scene.alive]:
        _disc(picture, (fish[0], fish[1]), FISH_RADIUS * 0.7, DEAD, strength=0.75)
    for fish in scene.fish[scene.alive]:
        _fish(picture, fish)
    for predator in scene.predators:
        _predator(picture, predator)
    drawn: NDArray[np.uint8] = np.clip(picture + 0.5, 0, 255).astype(np.uint8)
    return drawn


@functools.cache
def _axes() -> tuple[Picture, Picture]:
    """Return the world's coordinates of every pixel, [1, SIDE] and [SIDE, 1]."""
    line = ((np.arange(SIDE) + 0.5 - SIDE / 2) / SCALE).astype(np.float32)
    return line[None, :], -line[:, None]


@functools.cache
def _water() -> Picture:
    """Return the empty stage, lighter in the middle."""
    x, y = _axes()
    distance = np.sqrt(x * x + y * y)[..., None]
    depth = np.clip(distance / float(RADIUS), 0, 1) ** 2
    water = np.array(SHALLOW) * (1 - depth) + np.array(DEEP) * depth
    inside = np.clip((float(RADIUS) - distance) * SCALE + 0.5, 0, 1)
    return (water * inside + np.array(SHORE) * (1 - inside)).astype(np.float32)


def _ring(picture: Picture, elapsed: float) -> None:
    """Draw the wall; the light part of it, clockwise from the top, is the time that has passed."""
    edge, clock = _ring_shape()
    done = (clock < elapsed)[..., None]
    colour = np.where(done, np.array(RING_DONE), np.array(RING))
    _blend(picture, edge, colour.astype(np.float32))


@functools.cache
def _ring_shape() -> tuple[Picture, Picture]:
    x, y = _axes()
    distance = np.sqrt(x * x + y * y)
    edge = np.clip(2.0 - np.abs(distance - float(RADIUS) - 0.08) * SCALE, 0, 1)
    clock = np.arctan2(x, y) / (2 * np.pi) % 1.0
    return edge.astype(np.float32), clock.astype(np.float32)


def _fish(picture: Picture, fish: NDArray[np.float32]) -> None:
    """Draw a body with a tail, pointing where it swims."""
    x, y, vx, vy = (float(number) for number in fish)
    speed = float(np.hypot(vx, vy))
    ahead, up = (vx / speed, vy / speed) if speed > 0.01 else (1.0, 0.0)
    for back, radius in ((1.3, 0.30), (0.95, 0.42), (0.55, 0.62), (0.15, 0.8)):
        place = (x - ahead * back * FISH_RADIUS, y - up * back * FISH_RADIUS)
        _disc(picture, place, radius * FISH_RADIUS, FISH, strength=0.9)
    _disc(picture, (x, y), FISH_RADIUS * 0.85, FISH)
    eye = (x + ahead * 0.35 * FISH_RADIUS, y + up * 0.35 * FISH_RADIUS)
    _disc(picture, eye, 0.3 * FISH_RADIUS, FISH_BELLY)


def _predator(picture: Picture, predator: NDArray[np.float32]) -> None:
    """Draw the hunter with a soft shadow and an eye that looks where it goes."""
    x, y, vx, vy = (float(number) for number in predator)
    _disc(picture, (x, y), PREDATOR_RADIUS * 1.35, (0.0, 0.0, 0.0), strength=0.25)
    _disc(picture, (x, y), PREDATOR_RADIUS, PREDATOR)
    speed = max(float(np.hypot(vx, vy)), 0.01)
    eye = (x + vx / speed * 0.5 * PREDATOR_RADIUS, y + vy / speed * 0.5 * PREDATOR_RADIUS)
    _disc(picture, eye, 0.26 * PREDATOR_RADIUS, (255.0, 244.0, 230.0))
    _disc(picture, eye, 0.13 * PREDATOR_RADIUS, (30.0, 16.0, 16.0))


def _disc(
    picture: Picture,
    centre: tuple[float, float],
    radius: float,
    colour: Colour,
    *,
    strength: float = 1.0,
) -> None:
    """Draw a disc with a soft edge of one pixel."""
    column, row = SIDE / 2 + centre[0] * SCALE, SIDE / 2 - centre[1] * SCALE
    reach = radius * SCALE + 1
    rows = slice(max(int(row - reach), 0), min(int(row + reach) + 2, SIDE))
    columns = slice(max(int(column - reach), 0), min(int(column + reach) + 2, SIDE))
    down = np.arange(rows.start, rows.stop, dtype=np.float32)[:, None] + np.float32(0.5 - row)
    along = np.arange(columns.start, columns.stop, dtype=np.float32) + np.float32(0.5 - column)
    distance = np.sqrt(down * down + along * along)
    cover = np.clip(np.float32(radius * SCALE + 0.5) - distance, 0, 1) * np.float32(strength)
    _blend(picture[rows, columns], cover, np.array(colour, np.float32))


def _blend(patch: Picture, cover: Picture, colour: Picture) -> None:
    """Lay a colour over a part of the picture."""
    patch += (colour - patch) * cover[..., None]
