"""Many games of one cartridge, stepped by threads: the emulator works without the GIL."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, Ending, Start, StepBuffers
from longhaul.core.native import entry
from longhaul.core.settings import Settings
from longhaul.core.spaces import Discrete, EnvSpec, Part, Tier
from longhaul.core.state import State
from longhaul.tasks.atari.options import AtariOptions, ale


@dataclass(frozen=True, slots=True)
class Shares:
    """How the pixels of one axis are shared among those of a smaller one, [outputs, taps]."""

    first: NDArray[np.int64]  # [outputs]: the first pixel of each
    weights: NDArray[np.float32]  # [outputs, taps]: of the pixels from there on

    @staticmethod
    def of(inputs: int, outputs: int) -> Shares:
        """Return the shares by area."""
        edges = np.arange(outputs + 1) * (inputs / outputs)
        pixels = np.arange(inputs)
        upper = np.minimum(edges[1:, None], pixels + 1)
        overlap = np.maximum(upper - np.maximum(edges[:-1, None], pixels), 0)
        overlap[overlap < 1e-3] = 0
        taps = int((overlap > 0).sum(1).max())
        first = np.minimum((overlap > 0).argmax(1), inputs - taps)
        near = overlap[np.arange(outputs)[:, None], first[:, None] + np.arange(taps)]
        return Shares(first, (near / (inputs / outputs)).astype(np.float32))


@entry
def push_picture(
    screens: Array, down: tuple[Array, Array], across: tuple[Array, Array], stack: Array
) -> None:
    """Put the brighter pixels of two screens, shrunk, behind the latest pictures; drop the oldest.

    Sums are float32, first across and then down, and rounded to even, as OpenCV's by area.
    """
    for plane in range(stack.shape[0] - 1):
        stack[plane] = stack[plane + 1]
    out = stack[stack.shape[0] - 1]
    height, width = out.shape
    lines = np.zeros((screens.shape[1], width), np.float32)
    for line in range(screens.shape[1]):
        for x in range(width):
            begin = across[0][x]
            total = np.float32(0)
            for tap in range(across[1].shape[1]):
                place = begin + tap
                pixel = max(screens[0, line, place], screens[1, line, place])
                total += across[1][x, tap] * np.float32(pixel)
            lines[line, x] = total
    sums = np.zeros(width, np.float32)
    for y in range(height):
        sums[:] = 0
        for tap in range(down[1].shape[1]):
            weight = down[1][y, tap]
            for x in range(width):
                sums[x] += weight * lines[down[0][y] + tap, x]
        for x in range(width):
            out[y, x] = np.uint8(np.rint(sums[x]))


class Emulator:
    """One console with the cartridge in it; writes pictures into the stack it is bound to."""

    def __init__(self, path: Path, options: AtariOptions) -> None:
        emulator = ale()
        self._options = options
        self._state_type = emulator.ALEState
        self._ale = console = emulator.ALEInterface()
        # Repeated actions are drawn here: the emulator takes another seed only by loading again.
        console.setFloat("repeat_action_probability", 0.0)
        console.loadROM(path)
        console.reset_game()
        whole = (
            console.getLegalActionSet() if options.all_actions else console.getMinimalActionSet()
        )
        self.actions = tuple(whole)
        self._fire = self._place_of("FIRE") if options.press_fire else None
        height, width = console.getScreenDims()
        self._down, self._across = (
            (shares.first, shares.weights)
            for shares in (Shares.of(height, options.size), Shares.of(width, options.size))
        )
        self._screens = np.zeros((2, height, width), np.uint8)
        # After some games a reset differs from the first one; a restored state never does.
        self._fresh = console.cloneState()
        self._fresh_screen = console.getScreenGrayscale()
        self._stack = np.zeros((options.stack, options.size, options.size), np.uint8)
        self._repeats: list[bool] = []
        self._seed = self._frames = self._last = self._lives = 0
        self.waits = False  # a life was lost: the next step goes on without the policy

    def _place_of(self, name: str) -> int | None:
        names = [action.name for action in self.actions]
        return names.index(name) if name in names else None

    def bind(self, stack: Array) -> None:
        """Write pictures into `stack` from now on."""
        self._stack = stack

    def reset(self, seed: int) -> None:
        """Begin the game of a seed."""
        self._ale.restoreState(self._fresh)
        self._begin(seed, frames=0)
        self._lives = self._ale.lives()
        waiting = 0
        if self._options.noop_max:
            waiting = int(np.random.default_rng((seed, 1)).integers(self._options.noop_max)) + 1
        for _ in range(waiting):
            self._frame(0)
        self._screens[0] = self._ale.getScreenGrayscale() if waiting else self._fresh_screen
        self._screens[1] = 0
        push_picture(self._screens, self._down, self._across, self._stack)
        self._stack[:-1] = self._stack[-1]
        if self._fire is not None:
            self.step(self._fire)
        self.waits = False

    def _begin(self, seed: int, frames: int) -> None:
        options = self._options
        self._seed, self._frames, self._last = seed, frames, 0
        if options.sticky:
            drawn = np.random.default_rng((seed, 2)).random(options.max_frames)
            self._repeats = (drawn < options.sticky).tolist()

    def step(self, action: int) -> float:
        """Hold an action, or what follows a lost life, for some frames; return the points."""
        if self.waits:
            action = self._fire or 0
        skip, points, over = self._options.frame_skip, 0.0, False
        for index in range(skip):
            points += self._frame(action)
            over = self.is_over
            if index >= skip - 2 or over:
                self._ale.getScreenGrayscale(self._screens[index & 1])
            if over:
                break
        if skip == 1 or over:
            self._screens[:] = self._screens[index & 1]
        push_picture(self._screens, self._down, self._across, self._stack)
        lives = self._ale.lives()
        # Some games show no life left for a while before they are over.
        self.waits = self._options.episodic_life and 0 < lives < self._lives and not over
        self._lives = lives
        return points

    def _frame(self, action: int) -> int:
        if self._repeats and self._repeats[min(self._frames, len(self._repeats) - 1)]:
            action = self._last
        self._last = action
        self._frames += 1
        points: int = self._ale.act(self.actions[action])
        return points

    @property
    def is_late(self) -> bool:
        """Whether the game has lasted as long as it may."""
        return self._frames >= self._options.max_frames

    @property
    def is_over(self) -> bool:
        """Whether nothing can be done any more."""
        return self.is_late or bool(self._ale.game_over())

    def picture(self) -> NDArray[np.uint8]:
        """Return the screen in color."""
        screen: NDArray[np.uint8] = self._ale.getScreenRGB()
        return screen

    def snapshot(self) -> State:
        """Return the state in the middle of a game."""
        return {
            "console": np.frombuffer(self._ale.cloneState().serialize(), np.uint8).copy(),
            "stack": self._stack.copy(),
            "seed": self._seed,
            "frames": self._frames,
            "last": self._last,
            "lives": self._lives,
            "waits": self.waits,
        }

    def restore(self, state: State) -> None:
        """Continue from a snapshot."""
        self._ale.restoreState(self._state_type(np.asarray(state["console"]).tobytes()))
        self._begin(state["seed"], state["frames"])
        self._stack[...] = state["stack"]
        self._last, self._lives, self.waits = state["last"], state["lives"], state["waits"]


@dataclass(frozen=True, slots=True)
class GamesFactory:
    """Makes batches of games; picklable."""

    path: Path
    options: AtariOptions
    spec: EnvSpec

    @staticmethod
    def of(name: str, path: Path, options: AtariOptions) -> GamesFactory:
        """Return the factory of a game; it is loaded once to read its actions."""
        actions = Emulator(path, options).actions
        spec = EnvSpec(
            id=f"atari:{name}",
            observation={"obs": Part((options.stack, options.size, options.size), "uint8")},
            action=Discrete(len(actions), tuple(action.name for action in actions)),
            tier=Tier.SNAPSHOT,
        )
        return GamesFactory(path, options, spec)

    def __call__(self, count: int) -> Emulators:
        """Return `count` games."""
        return Emulators(self, count)


class Emulators:
    """A batch of games behind the `BatchedEnv` protocol; one row each.

    A row that lost a life is terminated and away for one step; then it plays on.
    """

    def __init__(self, factory: GamesFactory, count: int) -> None:
        self.spec = factory.spec
        self._games = [Emulator(factory.path, factory.options) for _ in range(count)]
        self.over = np.zeros(count, np.bool_)  # whose episode ended in the last step
        self._slots: StepBuffers
        self.bind(StepBuffers.allocate(self.spec, count))

    @property
    def count(self) -> int:
        """How many games there are."""
        return len(self._games)

    def bind(self, slots: StepBuffers) -> None:
        """Write into these arrays, one row per game."""
        self._slots = slots
        for game, stack in zip(self._games, slots.obs["obs"], strict=True):
            game.bind(stack)

    def configure(self, settings: Settings) -> None:
        """Nothing of a game changes while training."""

    def reset(
        self, envs: NDArray[np.int64], seeds: NDArray[np.int64], starts: list[Start | None]
    ) -> None:
        """Begin a game in each of `envs`."""
        for env, seed in zip(envs.tolist(), seeds.tolist(), strict=True):
            self._games[env].reset(seed)
        self.over[envs] = False
        self._slots.active[envs] = True

    def step(self, begin: int, end: int, actions: Array) -> None:
        """Step games `begin` to `end`; safe to call at once for disjoint ranges."""
        slots = self._slots
        for env in range(begin, end):
            game = self._games[env]
            slots.reward[env] = game.step(int(actions[env]))
            is_over = game.is_over
            self.over[env] = is_over
            slots.truncated[env] = is_over and game.is_late
            slots.terminated[env] = game.waits or (is_over and not game.is_late)
            slots.active[env] = not game.waits

    def ending(self, env: int) -> Ending:
        """Return how the game of `env`, which is over, ended."""
        return Ending("time_limit" if self._games[env].is_late else "terminated")

    def frame(self, env: int) -> NDArray[np.uint8]:
        """Return the present screen of one game."""
        return self._games[env].picture()

    def snapshot(self) -> State:
        """Return the state of all games."""
        return {"games": [game.snapshot() for game in self._games], "over": self.over.copy()}

    def restore(self, state: State) -> None:
        """Continue from a snapshot."""
        for game, saved in zip(self._games, state["games"], strict=True):
            game.restore(saved)
        self.over[...] = state["over"]
        self._slots.active[...] = [not game.waits for game in self._games]

    def close(self) -> None:
        """The emulators are freed with the batch."""
