"""Acting in all rows as one native call: observation to action, log-probability and value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from longhaul.core.env import Array, empty_actions
from longhaul.core.labor import Labor, Link, bind
from longhaul.core.native import fetch, kernel_stamp
from longhaul.core.policy import Act, Policy
from longhaul.core.rollout import Memory, TensorTree
from longhaul.core.seeds import Seeds
from longhaul.core.settings import Settings
from longhaul.core.spaces import EnvSpec
from longhaul.learn.native import kernels as at
from longhaul.learn.native.draws import SPARE, choose, draw_uniform, normal_pair
from longhaul.learn.native.kernels import Arrays, Float, filled_up, inlined, part
from longhaul.learn.native.loss import choice_probabilities, gaussian_forward
from longhaul.learn.native.network import NativeNetwork, smallest_network
from longhaul.learn.native.tile import WIDTH
from longhaul.learn.native.update import forward

Seen = tuple[Array, Array, Array, Array]
"""Vectors, images and masks of all rows, and their numbers."""
Draws = tuple[Array, Array, int]
"""The key of the random numbers, room for those of a few rows, and how many a row needs."""
Acting = tuple[Arrays, Array, Arrays, Arrays, Seen, Draws, Arrays]
"""The network's tables and weights, room to work in, what moves the vectors, what is seen, what
actions are drawn from, and what is done."""


@inlined
def _observe(moves: Arrays, seen: Array, first: int, rows: int, results: Array) -> None:
    """Write the vectors of some rows as the network reads them; the rest of the room is zero."""
    shift, scale, limit = moves
    width = (seen.shape[1] + WIDTH - 1) // WIDTH * WIDTH
    for row in range(rows):
        inputs = part(results, row * width, width)
        for column in range(seen.shape[1]):
            x = (seen[first + row, column] - shift[column]) * scale[column]
            x = limit[column] if x > limit[column] else x
            inputs[column] = -limit[column] if x < -limit[column] else x
    part(results, rows * width, (filled_up(rows) - rows) * width)[:] = at.ZERO


@inlined
def _choose(
    logits: Array, groups: Array, mask: Array, numbers: Array, out: tuple[Array, Array, Array]
) -> Float:
    """Choose in one row; return the log-probability of all choices together."""
    chosen, log_probs, probs = out
    log_prob = at.ZERO
    for group in range(chosen.size):
        first, end = groups[group], groups[group + 1]
        choice_probabilities(logits, mask, (first, end), (log_probs, probs))
        chosen[group] = choose(probs, first, end, numbers[group])
        log_prob += log_probs[first + chosen[group]]
    return log_prob


@inlined
def _move(mean: Array, log_std: Array, numbers: Array, action: Array) -> Float:
    """Draw a continuous action around the mean; return its log-density."""
    for a in range(0, action.size, 2):
        normals = normal_pair(numbers[a], numbers[a + 1])
        for i in range(min(2, action.size - a)):
            action[a + i] = mean[a + i] + np.exp(log_std[a + i]) * normals[i]
    return gaussian_forward(mean, action, log_std)[0]


@inlined
def _act_in_row(acting: Acting, row: int, item: int, numbers: Array) -> None:
    (layers, groups, marks), weights, work, _, (_, _, mask, _), _, done = acting
    results, log_probs, probs = work[1], work[4], work[2]
    chosen, action, found = done
    last = layers[marks[at.POLICY_LAYER]]
    place = last[at.LAYER_RESULT] + row * last[at.LAYER_RESULT_ROW]
    outputs = part(results, place, marks[at.ACTIONS])
    if marks[at.LOG_STD] == at.NO_LOG_STD:
        allowed = mask[item if mask.shape[1] else 0]
        out = (chosen[item], log_probs, probs)
        found[0, item] = _choose(outputs, groups, allowed, numbers, out)
    else:
        log_std = part(weights, marks[at.LOG_STD], marks[at.ACTIONS])
        found[0, item] = _move(outputs, log_std, numbers, action[item])
    last = layers[marks[at.VALUE_LAYER]]
    place = last[at.LAYER_RESULT] + row * last[at.LAYER_RESULT_ROW]
    found[1, item] = results[place + marks[at.VALUE_COLUMN]]


def _compile(stamp: int) -> Labor:
    def act(pointer: Any, step: int, count: int) -> int:
        """Act in the first `count` rows."""
        _ = stamp
        acting = fetch(pointer)
        network, weights, work, moves, (vectors, pixels, _, items), draws, _ = acting
        key, numbers, each = draws
        for first in range(0, count, at.ROWS):
            rows = min(at.ROWS, count - first)
            _observe(moves, vectors, first, rows, work[1])
            pictures = (pixels, part(items, first, rows))
            forward(network, weights, work, pictures, filled_up(rows))
            begin = draw_uniform(numbers, first * each, rows * each, key, step)
            for row in range(rows):
                _act_in_row(acting, row, first + row, part(numbers, begin + row * each, each))
        return 0

    return act


_act = _compile(kernel_stamp(sorted(Path(__file__).parent.glob("*.py"))))


def _make_room(network: NativeNetwork, rows: int, *, has_masks: bool) -> Acting:
    """Return all arrays for acting in so many rows."""
    choices, actions = len(network.plain.choices), network.actions
    each = choices or actions + actions % 2  # normal numbers come in pairs
    parts = network.plain.parts
    sizes = [one.size for one in parts]
    limits = np.array([one.limit for one in parts], np.float32)
    shift = np.zeros(network.inputs, np.float32)
    transposed, results, _, *others = network.work
    return (
        network.network,
        network.flat[0],
        (transposed, results, np.zeros_like(others[1]), *others),
        (shift, np.ones_like(shift), np.repeat(limits, sizes)),
        (
            np.zeros((rows, network.inputs), np.float32),
            np.zeros((rows, network.pixels), np.uint8),
            np.ones((rows, actions) if has_masks else (1, 0), np.bool_),
            np.arange(rows),
        ),
        (np.zeros(2, np.int64), np.zeros(at.ROWS * each + SPARE, np.float32), each),
        (
            np.zeros((rows, choices), np.int64),
            np.zeros((rows, 0 if choices else actions), np.float32),
            np.zeros((2, rows), np.float32),
        ),
    )


class NativeActor:
    """Acts in all rows of a vector env with the weights its policy had at the last `begin`.

    Actions are drawn from numbers that depend on the seed, the step and the row only.
    """

    def __init__(self, policy: Policy, spec: EnvSpec, rows: int, seeds: Seeds) -> None:
        plain = policy.plain_network()
        assert plain is not None, "the policy was asked before whether it can be native"
        self._parameters = dict(policy.named_parameters())
        self.network = NativeNetwork(plain, self._parameters, learns=False)
        room = _make_room(self.network, rows, has_masks=spec.has_masks)
        *_, self._moves, seen, (self._key, _, _), (chosen, moved, found) = room
        self._seen, self._pixels, self._mask, _ = seen
        self._call = bind(_act, room).caller()
        self._parts = plain.parts
        self._step = 0
        action = torch.from_numpy(chosen if plain.choices else moved)
        log_prob, value = torch.from_numpy(found)
        self._act = Act(action.view(empty_actions(spec, rows).shape), log_prob, value, memory={})
        self.draw_apart(seeds)

    def draw_apart(self, seeds: Seeds, *stream: int) -> None:
        """Draw actions from a separate stream."""
        words = seeds.sequence("collect", "draws", *stream).generate_state(2, np.uint32)
        self._key[:] = words

    def begin(self) -> None:
        """Act with the policy's present weights and normalizers from now on."""
        self.network.read("weights", self._parameters)
        shift, scale, _ = self._moves
        place = 0
        for one in self._parts:
            if one.moved is not None:
                here = slice(place, place + one.size)
                shift[here], scale[here] = (part.numpy().ravel() for part in one.moved())
            place += one.size

    def act(self, obs: TensorTree, memory: Memory, settings: Settings, mask: Tensor | None) -> Act:
        """Act in all rows or in fewer; what is returned is overwritten by the next call."""
        rows, place = 0, 0
        for one in self._parts:
            seen = obs[one.name].numpy()
            rows = len(seen)
            here = self._seen[:rows, place : place + one.size]
            if one.factor == 1.0:
                here[...] = seen.reshape(here.shape)
            else:
                np.multiply(seen.reshape(here.shape), np.float32(one.factor), out=here)
            place += one.size
        for image in self.network.plain.images:
            rows = len(obs[image.name])
        self.network.bytes_of(obs, self._pixels[:rows])
        if mask is not None:
            self._mask[:rows] = mask.numpy()
        self._call(self._step, rows)
        self._step += 1
        act = self._act
        if rows == len(self._seen):
            return act
        return replace(
            act, action=act.action[:rows], log_prob=act.log_prob[:rows], value=act.value[:rows]
        )

    def generator_state(self) -> object:
        """Return the number of steps so far."""
        return {"step": self._step}

    def restore_generator(self, state: object) -> None:
        """Draw what followed a saved state; that of another kind of actor is left alone."""
        if isinstance(state, Mapping):
            self._step = int(state["step"])


def compiled() -> Link:
    """Return the native code, compiled unless this machine has kept it, for a tiny network."""
    return bind(_act, _make_room(smallest_network(), 1, has_masks=False))
