"""Pictures of a school, painted with NumPy alone."""

from __future__ import annotations

import functools
from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from longhaul.tasks.fish.pictures.sprites import (
    HEADINGS,
    PARTS,
    Canvas,
    Color,
    FishLook,
    Painter,
    Sprite,
    fish_sprite,
    stamp,
)
from longhaul.tasks.fish.world.world import CAPTURE, RADIUS, VISION

SIDE = 800
MARGIN = 24
SCALE = (SIDE / 2 - MARGIN) / float(RADIUS)
"""Pixels per unit of length."""
FISH_RADIUS = 0.2
PREDATOR_RADIUS = float(CAPTURE) - FISH_RADIUS
TRAIL = 14
"""Earlier frames whose places are still to be seen."""
SHOCK = 12
"""Steps for which a death draws a circle."""

Floats = NDArray[np.float32]

DEEP, SHALLOW, SHORE = (10.0, 34.0, 60.0), (26.0, 96.0, 122.0), (6.0, 13.0, 24.0)
RING, RING_DONE = (62.0, 92.0, 116.0), (240.0, 214.0, 140.0)
DEAD, PREDATOR, STONE = (214.0, 130.0, 130.0), (228.0, 74.0, 62.0), (84.0, 92.0, 98.0)
SHOCKED: Color = (255.0, 214.0, 200.0)
CALM = FishLook(
    FISH_RADIUS * SCALE * 0.92, (118.0, 204.0, 232.0), (214.0, 244.0, 252.0), (74.0, 160.0, 204.0)
)
ALARMED = replace(
    CALM, body=(250.0, 196.0, 92.0), back=(255.0, 236.0, 190.0), fin=(222.0, 140.0, 60.0)
)
"""A fish that sees a predator."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is to see of one school."""

    fish: Floats  # [fish, 4]: x, y, velocity; a dead one is where it died
    alive: NDArray[np.bool_]  # [fish]
    predators: Floats  # [predators, 4]
    obstacles: Floats  # [obstacles, 3]: x, y, radius
    elapsed: float = 0.0  # share of the episode that has passed
    trail: tuple[Floats, ...] = ()  # earlier `fish`, oldest first
    wake: tuple[Floats, ...] = ()  # earlier `predators`, oldest first
    step: int = 0
    dead_for: NDArray[np.int32] | None = None  # [fish], steps since death


@dataclass(slots=True)
class Sketchbook:
    """Draws the frames of one school and remembers earlier positions."""

    _steps: int = -1
    _trail: deque[Floats] = field(default_factory=lambda: deque(maxlen=TRAIL))
    _wake: deque[Floats] = field(default_factory=lambda: deque(maxlen=TRAIL))

    def draw(self, scene: Scene) -> Canvas:
        """Return the picture of the scene; an earlier step than the last one clears the trails."""
        if scene.step <= self._steps:
            self._trail.clear()
            self._wake.clear()
        picture = draw_scene(replace(scene, trail=tuple(self._trail), wake=tuple(self._wake)))
        self._steps = scene.step
        self._trail.append(scene.fish)
        self._wake.append(scene.predators)
        return picture


def draw_scene(scene: Scene) -> Canvas:
    """Return the picture of a scene, [800, 800, 3], +y up."""
    picture = _stage().copy()
    _clock(picture, scene.elapsed)
    for x, y, radius in scene.obstacles:
        _stamp(picture, _stone(float(radius)), float(x), float(y))
    for predator in scene.predators:
        _stamp(picture, _vision(), float(predator[0]), float(predator[1]))
    for age, earlier in enumerate(scene.wake):
        for x, y in earlier[:, :2]:
            _stamp(picture, _wake(age - len(scene.wake)), float(x), float(y))
    _trails(picture, scene)
    _dead(picture, scene)
    _fish(picture, scene)
    for predator in scene.predators:
        _stamp(picture, _predator(_heading(predator)), float(predator[0]), float(predator[1]))
    return picture


def _pixel(x: float, y: float) -> tuple[float, float]:
    """Return the column and the row of a place, counted between the middles of pixels."""
    return SIDE / 2 + x * SCALE - 0.5, SIDE / 2 - y * SCALE - 0.5


def _stamp(picture: Canvas, sprite: Sprite, x: float, y: float) -> None:
    column, row = _pixel(x, y)
    stamp(picture, sprite, round(column), round(row))


def _heading(body: Floats) -> int:
    angle = float(np.arctan2(body[3], body[2])) / (2 * np.pi)
    return round(angle * HEADINGS) % HEADINGS


@functools.cache
def _stage() -> Canvas:
    """Return the empty stage, lighter in the middle, with its wall."""
    x, y = _axes()
    distance = np.hypot(x, y)[..., None]
    depth = np.clip(distance / float(RADIUS), 0, 1) ** 2
    water = np.array(SHALLOW) * (1 - depth) + np.array(DEEP) * depth
    inside = np.clip((float(RADIUS) - distance) * SCALE + 0.5, 0, 1)
    picture = water * inside + np.array(SHORE) * (1 - inside)
    edge = _edge()[..., None]
    picture += (np.array(RING) - picture) * edge
    return (picture + 0.5).astype(np.uint8)


@functools.cache
def _axes() -> tuple[Floats, Floats]:
    """Return the world's coordinates of every pixel, [1, SIDE] and [SIDE, 1]."""
    line = ((np.arange(SIDE) + 0.5 - SIDE / 2) / SCALE).astype(np.float32)
    return line[None, :], -line[:, None]


def _edge() -> Floats:
    x, y = _axes()
    edge: Floats = np.clip(2.0 - np.abs(np.hypot(x, y) - float(RADIUS) - 0.08) * SCALE, 0, 1)
    return edge


@functools.cache
def _clock_pixels() -> tuple[Floats, NDArray[np.int64], Canvas]:
    """Return the pixels of the wall clockwise from the top: when each lights up, which, how."""
    x, y = _axes()
    edge = _edge().ravel()
    places = np.flatnonzero(edge)
    time = (np.arctan2(x, y) / (2 * np.pi) % 1.0).ravel()[places].astype(np.float32)
    order = np.argsort(time)
    places = places[order]
    below = _stage().reshape(-1, 3)[places].astype(np.float32)
    lit = below + (np.array(RING_DONE) - below) * edge[places][:, None]
    return time[order], places, (lit + 0.5).astype(np.uint8)


def _clock(picture: Canvas, elapsed: float) -> None:
    """Light the part of the wall, clockwise from the top, that is the time passed."""
    times, places, lit = _clock_pixels()
    count = int(np.searchsorted(times, elapsed))
    picture.reshape(-1, 3)[places[:count]] = lit[:count]


def _trails(picture: Canvas, scene: Scene) -> None:
    """Draw faint dots where living fish were, all of them at once."""
    if not scene.trail or not scene.alive.any():
        return
    places = np.concatenate([earlier[scene.alive, :2] for earlier in scene.trail])
    ages = np.repeat(np.arange(1, len(scene.trail) + 1), int(scene.alive.sum()))
    strength = (0.4 * ages / (len(scene.trail) + 1)).astype(np.float32)
    columns = np.round(SIDE / 2 + places[:, 0] * SCALE - 0.5).astype(np.int64)
    rows = np.round(SIDE / 2 - places[:, 1] * SCALE - 0.5).astype(np.int64)
    flat = picture.reshape(-1, 3)
    tint = np.array(CALM.body, np.float32)
    for down, along, share in _DOT:
        there = (rows + down) * SIDE + columns + along
        below = flat[there].astype(np.float32)
        flat[there] = below + (tint - below) * (share * strength)[:, None] + 0.5


_DOT = ((0, 0, 1.0), (0, 1, 0.5), (0, -1, 0.5), (1, 0, 0.5), (-1, 0, 0.5))
"""Rows, columns and strength of the pixels of a dot; the margin keeps them inside the picture."""


@functools.cache
def _wake(age: int) -> Sprite:
    """Return what a predator leaves behind; `age` counts up to -1, the last step."""
    painter = Painter(5)
    painter.disc(0.0, 0.0, 3.0, PREDATOR, strength=0.05 + 0.4 * (TRAIL + age) / TRAIL)
    return painter.sprite()


def _dead(picture: Canvas, scene: Scene) -> None:
    """Mark where fish died; a fresh death spreads a circle."""
    for number in np.flatnonzero(~scene.alive):
        x, y = float(scene.fish[number, 0]), float(scene.fish[number, 1])
        age = SHOCK if scene.dead_for is None else min(int(scene.dead_for[number]), SHOCK)
        _stamp(picture, _grave(age), x, y)


def _fish(picture: Canvas, scene: Scene) -> None:
    """Draw the living, those that see a predator in another color."""
    numbers = np.flatnonzero(scene.alive)
    bodies = scene.fish[numbers]
    away = bodies[:, None, :2] - scene.predators[None, :, :2]
    sees = ((away**2).sum(axis=-1) < float(VISION) ** 2).any(axis=1)
    angles = np.arctan2(bodies[:, 3], bodies[:, 2]) / (2 * np.pi)
    headings = np.round(angles * HEADINGS).astype(np.int64) % HEADINGS
    wags = np.array((0, 1, 0, -1))[(scene.step + numbers) % 4]
    columns = np.round((SIDE / 2 + bodies[:, 0] * SCALE - 0.5) * PARTS).astype(np.int64)
    rows = np.round((SIDE / 2 - bodies[:, 1] * SCALE - 0.5) * PARTS).astype(np.int64)
    for column, row, heading, wag, alarmed in zip(
        *(part.tolist() for part in (columns, rows, headings, wags, sees)), strict=True
    ):
        # A part of a pixel downwards is one against the world's +y.
        shift = (column % PARTS, -(row % PARTS))
        sprite = fish_sprite(heading, wag, shift, ALARMED if alarmed else CALM)
        stamp(picture, sprite, column // PARTS, row // PARTS)


@functools.cache
def _grave(age: int) -> Sprite:
    painter = Painter(28)
    freshness = 1 - age / SHOCK
    if freshness > 0:
        painter.ring(6 + 20 * (1 - freshness), 3.0, SHOCKED, strength=freshness)
    painter.cross(6.5, 2.4, DEAD, strength=0.55 + 0.45 * freshness)
    return painter.sprite()


@functools.cache
def _vision() -> Sprite:
    """Return the disc within which fish see a predator."""
    radius = float(VISION) * SCALE
    painter = Painter(int(radius) + 2)
    painter.disc(0.0, 0.0, radius, PREDATOR, strength=0.11)
    painter.ring(radius - 1, 1.2, PREDATOR, strength=0.25)
    return painter.sprite()


@functools.cache
def _stone(radius: float) -> Sprite:
    painter = Painter(int(radius * SCALE) + 2)
    painter.disc(0.0, 0.0, radius * SCALE, STONE)
    painter.disc(
        -0.2 * radius * SCALE,
        0.2 * radius * SCALE,
        0.7 * radius * SCALE,
        (98.0, 106.0, 112.0),
        strength=0.6,
    )
    return painter.sprite()


@functools.cache
def _predator(heading: int) -> Sprite:
    """Return the hunter: tail, fins, body, and eyes that look where it goes."""
    angle = 2 * np.pi * heading / HEADINGS
    ahead, up = float(np.cos(angle)), float(np.sin(angle))
    size = PREDATOR_RADIUS * SCALE
    painter = Painter(int(size * 2.4) + 4)

    def put(along: float, aside: float, radius: float, color: Color, strength: float = 1.0) -> None:
        x, y = ahead * along - up * aside, up * along + ahead * aside
        painter.disc(x * size, y * size, radius * size, color, strength=strength)

    dark = (176.0, 44.0, 44.0)
    put(0.0, 0.0, 1.4, (0.0, 0.0, 0.0), 0.22)
    for along, aside, radius in (
        (-1.7, 0.42, 0.2), (-1.7, -0.42, 0.2), (-1.5, 0.2, 0.24), (-1.5, -0.2, 0.24),
        (-1.25, 0.0, 0.34), (-0.95, 0.0, 0.48), (-0.15, 0.95, 0.22), (-0.15, -0.95, 0.22),
        (0.05, 0.8, 0.26), (0.05, -0.8, 0.26),
    ):  # fmt: skip
        put(along, aside, radius, dark)
    put(-0.45, 0.0, 0.78, PREDATOR)
    put(0.0, 0.0, 1.0, PREDATOR)
    put(0.55, 0.0, 0.62, PREDATOR)
    put(-0.05, 0.0, 0.42, (240.0, 112.0, 92.0))
    for side in (-0.4, 0.4):
        put(0.55, side, 0.2, (255.0, 244.0, 230.0))
        put(0.62, side, 0.1, (30.0, 16.0, 16.0))
    return painter.sprite()
