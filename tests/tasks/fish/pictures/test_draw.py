"""Pictures of schools."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from longhaul.tasks.fish.options import FishOptions, PredatorOptions
from longhaul.tasks.fish.pictures.draw import SCALE, SIDE, Scene, Sketchbook, draw_scene
from tests.tasks.fish.worlds import tank

EMPTY = Scene(
    fish=np.zeros((0, 4), np.float32),
    alive=np.zeros(0, np.bool_),
    predators=np.zeros((0, 4), np.float32),
    obstacles=np.zeros((0, 3), np.float32),
)


def at(picture: NDArray[np.uint8], x: float, y: float) -> list[int]:
    color: list[int] = picture[int(SIDE / 2 - y * SCALE), int(SIDE / 2 + x * SCALE)].tolist()
    return color


def test_a_school_is_drawn_without_a_display() -> None:
    options = FishOptions(fish=250, predator=PredatorOptions(count=2), obstacles=((5.0, 5.0, 1.0),))
    world = tank(options)
    for _ in range(30):
        world.step(0)
    picture = world.schools.frame(0)
    assert picture is not None
    assert picture.shape == (800, 800, 3)
    assert picture.dtype == np.uint8
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 500


def test_fish_are_light_the_dead_are_dull_and_predators_are_red() -> None:
    scene = replace(
        EMPTY,
        fish=np.array([[4.0, 4.0, 1.0, 0.0], [-4.0, 4.0, 0.0, 0.0]], np.float32),
        alive=np.array([True, False]),
        predators=np.array([[0.0, -4.0, 0.0, -1.0]], np.float32),
    )
    picture, water = draw_scene(scene), draw_scene(EMPTY)
    assert sum(at(picture, 4.0, 4.0)) > sum(at(water, 4.0, 4.0)) + 200
    dead = at(picture, -4.0, 4.0)
    assert sum(at(water, -4.0, 4.0)) < sum(dead) < sum(at(picture, 4.0, 4.0))
    red, green, blue = at(picture, 0.0, -3.8)
    assert red > 2 * green
    assert red > 2 * blue


def test_the_vision_radius_is_a_faint_disc() -> None:
    scene = replace(EMPTY, predators=np.array([[0.0, 0.0, 1.0, 0.0]], np.float32))
    picture, water = draw_scene(scene), draw_scene(EMPTY)
    inside, outside = (0.0, 3.2), (0.0, 3.5)
    assert at(picture, *inside)[0] > at(water, *inside)[0]
    assert at(picture, *outside) == at(water, *outside)


def test_up_is_up_and_the_ring_tells_the_time() -> None:
    scene = replace(EMPTY, obstacles=np.array([[0.0, 6.0, 1.0]], np.float32), elapsed=0.25)
    picture = draw_scene(scene)
    assert at(picture, 0.0, 6.0) != at(draw_scene(EMPTY), 0.0, 6.0)
    early, late = at(picture, 7.13, 7.13), at(picture, -7.13, -7.13)
    assert sum(early) > sum(late)


def test_trails_show_where_living_fish_came_from() -> None:
    fish = np.array([[0.0, 0.0, 1.0, 0.0]], np.float32)
    scene = replace(EMPTY, fish=fish, alive=np.array([True]))
    before = np.array([[-2.0, 0.0, 1.0, 0.0]], np.float32)
    with_trail = draw_scene(replace(scene, trail=(before,)))
    assert at(with_trail, -2.0, 0.0) != at(draw_scene(scene), -2.0, 0.0)


def test_drawing_leaves_the_empty_stage_as_it_was() -> None:
    first = draw_scene(EMPTY)
    draw_scene(replace(EMPTY, predators=np.array([[0.0, 0.0, 0.0, 0.0]], np.float32)))
    np.testing.assert_array_equal(first, draw_scene(EMPTY))


def test_a_sketchbook_remembers_the_way_and_forgets_it_at_a_new_episode() -> None:
    book = Sketchbook()
    fish = np.array([[-2.0, 0.0, 1.0, 0.0]], np.float32)
    first = replace(EMPTY, fish=fish, alive=np.array([True]), step=1)
    moved = replace(first, fish=fish + np.array([4.0, 0.0, 0.0, 0.0], np.float32), step=2)
    book.draw(first)
    assert at(book.draw(moved), -2.0, 0.0) != at(draw_scene(EMPTY), -2.0, 0.0)
    again = replace(moved, step=0)
    assert at(book.draw(again), -2.0, 0.0) == at(draw_scene(EMPTY), -2.0, 0.0)


def test_fish_that_see_the_predator_have_another_color() -> None:
    fish = np.array([[3.0, 0.0, 1.0, 0.0], [4.0, 0.0, 1.0, 0.0]], np.float32)
    predators = np.array([[0.0, 0.0, 0.0, -1.0]], np.float32)
    scene = replace(EMPTY, fish=fish, alive=np.ones(2, np.bool_), predators=predators)
    picture = draw_scene(scene)
    near, far = at(picture, 2.95, 0.0), at(picture, 3.95, 0.0)
    assert near[0] > near[2]
    assert far[2] > far[0]


def test_a_fresh_death_spreads_a_circle() -> None:
    scene = replace(EMPTY, fish=np.zeros((1, 4), np.float32), alive=np.zeros(1, np.bool_))
    fresh = draw_scene(replace(scene, dead_for=np.array([2], np.int32)))
    old = draw_scene(replace(scene, dead_for=np.array([90], np.int32)))
    changed = (fresh != old).any(axis=-1)
    assert 50 < changed.sum() < 3000
    assert at(old, 0.0, 0.0) != at(draw_scene(EMPTY), 0.0, 0.0)
