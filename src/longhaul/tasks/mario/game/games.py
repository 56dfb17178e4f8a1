"""Many games of Super Mario Bros. as one batch of simulators."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, BatchedEnvs, Ending, Start, StepBuffers
from longhaul.core.errors import CheckpointError
from longhaul.core.labor import Link, bind
from longhaul.core.settings import Settings
from longhaul.core.spaces import Discrete, EnvSpec, Part, Tier
from longhaul.core.state import State
from longhaul.envs.native.thread_pool import Chain, NativeStep, run_alone
from longhaul.tasks.mario.console.consoles import Consoles, Spell
from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.game import reward as at
from longhaul.tasks.mario.game.course import Course, CourseRows, Rules, World, choose, judge, settle
from longhaul.tasks.mario.game.course_view import COURSE, COURSE_SIZE, CourseShowing, show_course
from longhaul.tasks.mario.game.memory import (
    BLACK_SCREEN_TIMER,
    CHANGE_TIMER,
    Bytes,
    Facts,
    Memory,
    facts,
)
from longhaul.tasks.mario.game.movies import script_bytes
from longhaul.tasks.mario.game.options import SCRIPT_SHARE, GameOptions
from longhaul.tasks.mario.game.player import HELD_SIZE, Holding, begin_stream, draw_once, show_held
from longhaul.tasks.mario.game.reward import PlainReward, RewardSource
from longhaul.tasks.mario.game.stages import STAGES, Stage, lottery_of
from longhaul.tasks.mario.game.starts import Trail, read_start, stage_start
from longhaul.tasks.mario.game.tiles import SHAPE, STATE_SIZE, Showing, show

PIXELS, TILES, NUMBERS, HELD = "pixels", "tiles", "numbers", "held"
"""The parts of an observation, beside the course's numbers."""
MOST_SCENE_FRAMES = 3000
"""The longest scene without control, the end of a world, takes about 900."""
STEP_FIGURES = (
    at.GAINED,
    at.SCORE_GAINED,
    at.COINS_GAINED,
    at.CLOCK_LOST,
    at.POWER_CHANGE,
    at.LOOPED,
    at.ANSWERED,
)
LAST_STAGE_FACT = "last_stage"
"""The fact of an episode that may go through several stages: the one it ended in."""
STAGE_FACT = "stage"
"""The fact of an episode that names the stage it began in."""


@dataclass(frozen=True, slots=True)
class GameFactory:
    """Makes batches of games; picklable."""

    options: GameOptions
    cartridge: Cartridge
    reward: RewardSource = field(default_factory=PlainReward)
    follows_settings: bool = True
    """Whether settings change the stages; a fixed suite of episodes must stay as it is."""

    def __call__(self, count: int) -> Games:
        """Return `count` games."""
        return Games(self, count)

    @property
    def spec(self) -> EnvSpec:
        """The shapes and promises of one game."""
        return game_spec(self.options, self.reward)

    def envs(self) -> BatchedEnvs:
        """Return the games as an environment source."""
        return BatchedEnvs(self.spec, self)


def game_spec(options: GameOptions, reward: RewardSource) -> EnvSpec:
    """Return the shapes and promises of a game, for which no copy of it is needed."""
    parts: dict[str, Part] = {}
    if options.sees_pixels:
        parts[PIXELS] = Part(options.picture.shape, "uint8")
    if options.held_buttons:
        parts[HELD] = Part((HELD_SIZE,))
    if options.course_numbers:
        parts[COURSE] = Part((COURSE_SIZE,))
    if options.sees_tiles:
        parts[TILES] = Part(SHAPE, "uint8")
        parts[NUMBERS] = Part((STATE_SIZE,))
    chosen = options.action_set()
    return EnvSpec(
        id="mario",
        observation=parts,
        action=Discrete(len(chosen), chosen.names),
        tier=Tier.SNAPSHOT,
        terms=reward.terms,
        measures=reward.measures,
        row_name="Mario",
    )


class Games:
    """A batch of games behind the `BatchedEnv` protocol."""

    def __init__(self, factory: GameFactory, count: int) -> None:
        options = factory.options
        self.options = options
        self.actions = options.action_set()
        self.consoles = Consoles(factory.cartridge, count, options.picture)
        self.figures: NDArray[np.int32] = np.zeros((count, at.FIGURES), np.int32)
        self.memory = Memory(self.consoles.ram)
        self.spec = factory.spec
        self.count = count
        self._follows_settings = factory.follows_settings
        self._lottery = options.lottery()
        self._script_share = SCRIPT_SHARE.default
        self._generator = np.ones(count, np.uint64)
        self._buttons = np.zeros((count, 2), np.uint8)
        self._wishes = np.zeros(count, np.int64)
        self._left = np.zeros(count, np.int64)
        self.over = np.zeros(count, np.bool_)  # whose episode ended in the last step
        self.trail = Trail(count, options.trail, options.trail_every)  # the ends of episodes
        self._reward = factory.reward(count)
        self._world = World(self.consoles.states, self.figures, self._generator, self._buttons)
        self._rules = Rules(
            choices=np.array(self.actions.bytes, np.uint8),
            script=script_bytes(options.script),
            sticky=float(options.sticky),
            frame_skip=options.frame_skip,
            time_limit=options.time_limit,
            stagnation_limit=options.stagnation_limit,
            ends_at_death=options.ends_at_death,
            ends_at_clear=options.ends_at_clear,
            ends_at_warp=options.ends_at_warp,
        )
        self._slots: StepBuffers
        self._after: tuple[Link, ...]
        self._shows: Chain
        self._own: threading.local
        self.bind(StepBuffers.allocate(self.spec, count))

    def facts(self, env: int) -> Facts:
        """Return the facts of one game, in Python's own numbers."""
        return facts(self.consoles.ram[env])

    def bind(self, slots: StepBuffers) -> None:
        """Write into these arrays, one row per game."""
        self._slots = slots
        if PIXELS in slots.obs:
            self.consoles.draw_into(slots.obs[PIXELS])
        self._reward.bind(self.figures, slots)
        shows: tuple[Link, ...] = ()
        if self.options.sees_tiles:
            showing = Showing(self.consoles.states, slots.obs[TILES], slots.obs[NUMBERS])
            shows = (bind(show, showing),)
        if self.options.held_buttons:
            holding = Holding(self.consoles.states, slots.obs[HELD])
            shows = (*shows, bind(show_held, holding))
        if self.options.course_numbers:
            course = CourseShowing(self.consoles.states, self.figures, slots.obs[COURSE])
            shows = (*shows, bind(show_course, course))
        kept = (self.trail.bound(self.consoles.states, self.figures),)
        self._shows = Chain(*shows)
        self._after = (*(kept if self.options.trail else ()), *shows, self._reward.bound())
        self._own = threading.local()

    def native_step(self, members: int) -> NativeStep:
        """Return how to step the games by so many threads, into the slots bound last."""
        slots, rules = self._slots, self._rules
        rows = CourseRows(slots.terminated, slots.truncated, slots.forced, self.over)
        course = Course(self._world, rows, rules, self._wishes)
        span = np.array([rules.frame_skip, self.options.sees_pixels], np.int64)
        running = self.consoles.bound(Spell(self._buttons, span), members=members)
        chain = Chain(bind(choose, course), running, bind(judge, course), *self._after)

        def take(actions: Array) -> None:
            np.copyto(self._wishes, actions)

        def finish(env: int, done: int) -> None:
            self._skip_scene(env)
            run_alone(chain.after(done), self._left, env, env + 1)

        return NativeStep(chain, take, finish)

    def configure(self, settings: Settings) -> None:
        """Take settings into account from each game's next reset on."""
        if not self._follows_settings:
            return
        if STAGES.name in settings:
            chosen = settings[STAGES]
            self._lottery = lottery_of(chosen) if chosen else self.options.lottery()
        if SCRIPT_SHARE.name in settings:
            self._script_share = settings[SCRIPT_SHARE]
        self._reward.configure(settings)

    def reset(
        self, envs: NDArray[np.int64], seeds: NDArray[np.int64], starts: list[Start | None]
    ) -> None:
        """Begin an episode in each of `envs`."""
        for env, seed, start in zip(envs.tolist(), seeds.tolist(), starts, strict=True):
            self._begin(env, seed, start)
            self._show(env, env + 1)
        self._reward.begin(envs)

    def step(self, begin: int, end: int, actions: Array) -> None:
        """Step games `begin` to `end`; safe to call at once for disjoint ranges."""
        own: NativeStep | None = getattr(self._own, "step", None)
        if own is None:
            own = self._own.step = self.native_step(members=1)
        self._wishes[begin:end] = actions[begin:end]
        if run_alone(own.chain, self._left, begin, end):
            for env in range(begin, end):
                if self._left[env]:
                    own.finish(env, int(self._left[env]))

    def ending(self, env: int) -> Ending:
        """Return how the episode of `env`, which is over, ended."""
        own = self.figures[env].tolist()
        reason = at.REASONS[own[at.REASON]]
        metrics = {
            "progress": float(own[at.PROGRESS]),
            "x": float(own[at.X]),
            "score": float(own[at.SCORE]),
            "coins": float(own[at.COIN_COUNT]),
            "clock": float(own[at.CLOCK]),
            "cleared": float(own[at.CLEARED]),
            "deaths": float(own[at.DEATHS]),
            "loops": float(own[at.LOOPS]),
            "maze_right": float(own[at.RIGHTS]),
            "maze_wrong": float(own[at.WRONGS]),
            "frames": float(own[at.FRAMES]),
        }
        stage = Stage(own[at.FIRST_WORLD], own[at.FIRST_STAGE])
        facts: dict[str, Any] = {STAGE_FACT: str(stage), "x": own[at.X], "y": own[at.Y]}
        if not self.options.ends_at_clear:
            facts[LAST_STAGE_FACT] = str(Stage(own[at.WORLD], own[at.STAGE]))
        return Ending(reason, metrics, facts)

    def frame(self, env: int) -> Bytes | None:
        """Return the present picture of one game, 240 x 256 in color."""
        return self.consoles.screen(env)

    def snapshot(self) -> State:
        """Return the state of all games."""
        state: State = {
            "consoles": self.consoles.states.copy(),
            "figures": self.figures.copy(),
            "generator": self._generator.copy(),
            "trail": self.trail.snapshot(),
            "reward": self._reward.snapshot(),
        }
        if self.options.sees_pixels:
            state["pictures"] = self.consoles.pictures.copy()
        return state

    def restore(self, state: State) -> None:
        """Continue from a snapshot and write the slots."""
        if state["consoles"].shape != self.consoles.states.shape:
            raise CheckpointError(
                f"the saved consoles are {state['consoles'].shape}, not "
                f"{self.consoles.states.shape}: they were saved by another version of longhaul"
            )
        self.consoles.states[...] = state["consoles"]
        self.figures[...] = state["figures"]
        self._generator[...] = state["generator"]
        self.over[...] = False
        self.trail.restore(state["trail"])
        self._reward.restore(state["reward"])
        if self.options.sees_pixels:
            self.consoles.pictures[...] = state["pictures"]
        self._show(0, self.count)

    def save(self, env: int) -> Bytes:
        """Return one game's console and the figures of its episode, as `load` takes them."""
        return np.concatenate([self.consoles.states[env], self.figures[env].view(np.uint8)])

    def load(self, env: int, saved: Bytes) -> None:
        """Put one game into a saved state; its episode goes on."""
        size = self.consoles.states.shape[1]
        self.consoles.states[env] = saved[:size]
        self.figures[env] = saved[size:].view(np.int32)
        self.over[env] = False
        self._show(env, env + 1)

    def close(self) -> None:
        """Free what the games hold: nothing."""

    def _show(self, begin: int, end: int) -> None:
        """Write the observations that are not pixels."""
        run_alone(self._shows, self._left, begin, end)

    def _begin(self, env: int, seed: int, start: Start | None) -> None:
        begin_stream(self._generator, env, seed)
        drawn = self._lottery.draw(draw_once(self._generator, env))
        scripted = draw_once(self._generator, env) < self._script_share
        waits = int(draw_once(self._generator, env) * (self.options.noop_frames + 1))
        given = None if start is None else read_start(start)
        own = self.figures[env]
        own[:] = 0
        own[at.STARTED_HARD] = start is not None
        own[at.SCRIPTED] = scripted and len(self._rules.script) > 0
        if given is not None and given.row is not None:
            self.consoles.states[env] = given.row
            waits = 0
        else:
            stage = drawn if given is None or given.stage is None else given.stage
            self.consoles.states[env] = stage_start(self.consoles.cartridge, stage)
        self.consoles.pictures[env] = 0
        self._buttons[env] = 0
        # At least one frame is shown.
        self._run(env, waits + 1, draw=self.options.sees_pixels)
        settle(self._world, env)
        own[at.FIRST_WORLD], own[at.FIRST_STAGE] = own[at.WORLD], own[at.STAGE]
        self.over[env] = False
        self.trail.clear(env)

    def _skip_scene(self, env: int) -> None:
        """Let a scene pass in which buttons do nothing: pipes, deaths, the way to a next stage."""
        ram, own = self.consoles.ram[env], self.figures[env]
        memory = Memory(ram)
        self._buttons[env] = 0
        frames = 0
        while frames < MOST_SCENE_FRAMES and (not memory.playing or memory.dying):
            if self.options.cuts_scenes:
                ram[BLACK_SCREEN_TIMER] = 0
                if 1 < ram[CHANGE_TIMER] < 255:
                    ram[CHANGE_TIMER] = 1
            self._run(env, 1, draw=False)
            frames += 1
        if frames == MOST_SCENE_FRAMES:
            own[at.REASON] = at.SCENE
            self._slots.truncated[env] = self.over[env] = True
        self._run(env, 1, draw=self.options.sees_pixels)
        own[at.FRAMES] += frames + 1
        # The step's own changes stay; those of the scene are not caused by an action.
        kept = own[list(STEP_FIGURES)].copy()
        settle(self._world, env)
        own[list(STEP_FIGURES)] = kept

    def _run(self, env: int, frames: int, *, draw: bool) -> None:
        self.consoles.step(self._buttons, frames=frames, begin=env, end=env + 1, draw=draw)
