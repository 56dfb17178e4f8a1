"""Many schools of fish as one batch of simulators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, BatchedEnvs, Bools, Ending, Start, StepBuffers
from longhaul.core.errors import CheckpointError, EnvError
from longhaul.core.settings import Settings
from longhaul.core.spaces import Discrete, EnvSpec, Part, Tier
from longhaul.core.state import State
from longhaul.tasks.fish.options import DENSITY_PENALTY, ESCAPE_BOOST, SCHOOL_SIZE, FishOptions
from longhaul.tasks.fish.pictures.draw import Scene, Sketchbook
from longhaul.tasks.fish.world.observe import input_count
from longhaul.tasks.fish.world.reset import draw, hunt_draws, make_plan, place_school
from longhaul.tasks.fish.world.starts import (
    ATTEMPTS,
    FishStart,
    JointBias,
    PositionStart,
    SeedStart,
    ThrownStart,
    read_start,
    redrawn_seed,
    start_name,
)
from longhaul.tasks.fish.world.step import ORIGINAL_TERMS, PLAIN_TERMS, step_schools
from longhaul.tasks.fish.world.world import (
    ABSENT,
    ACTION_NAMES,
    ACTIONS,
    SURVIVED,
    StepArrays,
    empty_world,
    make_rules,
)

DEATH_STEPS = "death_steps"
"""The fact of an episode that holds the step each fish died in, -1 for survivors."""
FIRST_STEP_PLACES = "step_one_places"
"""The fact with the positions of fish that died in the first step, `{fish: [x, y]}`."""
START_NAME = "start"
"""The fact of an episode that names the bad start it began from."""
FORCED = "forced"
"""The reason of an episode that was cut to deal the next start."""

_NO_ACTIONS = np.empty(0, np.int64)

_SAVED = (
    "fish",
    "alive",
    "deaths",
    "predators",
    "elapsed",
    "limit",
    "size",
    "over",
    "density_penalty",
)


@dataclass(frozen=True, slots=True)
class SchoolFactory:
    """Makes batches of schools; picklable."""

    options: FishOptions
    follows_settings: bool = True
    """Whether settings change the world; a fixed suite of episodes must stay as it is."""
    keeps_facts: bool = False
    """Whether episodes hold every fish's death step, which the logs of training do not need."""
    library: tuple[tuple[str, FishStart], ...] = ()
    """The bad starts that `("tail", name)` stands for."""

    def __call__(self, count: int) -> Schools:
        """Return `count` schools."""
        return Schools(self, count)

    @property
    def spec(self) -> EnvSpec:
        """The shapes and promises of one school, in which every fish is a row."""
        options = self.options
        inputs = input_count(
            own_frame=options.inputs == "own_frame",
            predators=options.predator.count,
            has_obstacles=bool(options.obstacles),
            sees_neighbors=options.neighbors.inputs,
        )
        return EnvSpec(
            id="fish",
            observation={"obs": Part((inputs,))},
            action=Discrete(ACTIONS, ACTION_NAMES),
            rows=options.fish,
            row_name="fish",
            tier=Tier.SNAPSHOT,
            terms=PLAIN_TERMS if options.reward.kind == "plain" else ORIGINAL_TERMS,
        )


def fish_envs(
    options: FishOptions,
    *,
    follows_settings: bool = True,
    keeps_facts: bool = False,
    library: tuple[tuple[str, FishStart], ...] = (),
) -> BatchedEnvs:
    """Return the source of schools whose fish act each for itself."""
    factory = SchoolFactory(options, follows_settings, keeps_facts, library)
    return BatchedEnvs(factory.spec, factory)


class Schools:
    """A batch of schools behind the `BatchedEnv` protocol."""

    def __init__(self, factory: SchoolFactory, count: int) -> None:
        options = factory.options
        self.options = options
        self.spec = factory.spec
        self.count = count
        self._numbers = np.arange(count)
        self._follows_settings = factory.follows_settings
        self._keeps_facts = factory.keeps_facts
        self._library = dict(factory.library)
        self._names = [""] * count  # of the bad start each episode began from
        self._joint = JointBias(options.start.joint_bias)
        self.world = empty_world(options, count)
        self._rules = make_rules(options)
        self._plan = make_plan(options.start)
        self._boost = options.start.escape_boost_speed
        self._density_penalty = options.reward.density_penalty
        self._size = options.fish
        self._sketchbooks: dict[int, Sketchbook] = {}
        self._rows: StepArrays
        self.bind(StepBuffers.allocate(self.spec, count * options.fish))

    @property
    def over(self) -> Bools:
        """[count], True for schools whose episode ended in the last step."""
        over: Bools = self.world.over
        return over

    def death_steps(self, env: int) -> NDArray[np.int32]:
        """Return the step each fish of one school died in so far, -1 for those alive.

        Of an episode that is over, until the school is reset.
        """
        steps: NDArray[np.int32] = self.world.deaths[env, : self.world.size[env]]
        return steps.copy()

    def present_start(self, env: int) -> PositionStart:
        """Return everybody's place and velocity, from which another episode can begin."""
        size = self.world.size[env]
        return PositionStart.of(self.world.fish[env, :size], self.world.predators[env])

    def bind(self, slots: StepBuffers) -> None:
        """Write into these arrays, `count * spec.rows` rows, env-major."""
        # The kernels always write all terms; those the reward does not have are not read.
        terms = {name: np.zeros_like(slots.reward) for name in ORIGINAL_TERMS} | slots.terms
        self._rows = StepArrays(
            slots.obs["obs"],
            slots.active,
            slots.reward,
            slots.terminated,
            slots.truncated,
            *(terms[name] for name in ORIGINAL_TERMS),
        )

    def reset(
        self, envs: NDArray[np.int64], seeds: NDArray[np.int64], starts: list[Start | None]
    ) -> None:
        """Begin an episode in each of `envs`."""
        for env, seed, start in zip(envs.tolist(), seeds.tolist(), starts, strict=True):
            self._begin(env, seed, start)
        self._show(envs)

    def _show(self, envs: NDArray[np.int64]) -> None:
        """Write what the fish of some schools see and which of them are there."""
        step_schools(self.world, self._rows, self._rules, envs, _NO_ACTIONS)

    def step(self, begin: int, end: int, actions: Array) -> None:
        """Step schools `begin` to `end`; safe to call at once for disjoint ranges."""
        schools = self._numbers[begin:end]
        step_schools(self.world, self._rows, self._rules, schools, actions)

    def ending(self, env: int) -> Ending:
        """Return how the episode of `env`, which is over, ended."""
        deaths = self.death_steps(env)
        died = deaths[deaths > 0]
        alive = len(deaths) - len(died)
        metrics = {
            "survival_rate": alive / len(deaths),
            "final_num_alive": float(alive),
            "avg_num_alive": alive + float((died - 1).sum()) / float(self.world.elapsed[env]),
            "step_one_deaths": float((died == 1).sum()),
            "fish": float(len(deaths)),
        }
        if died.size:
            metrics["first_death_step"] = float(died.min())
        if (died > 1).any():
            metrics["first_later_death_step"] = float(died[died > 1].min())
        reason = "all_dead" if alive == 0 else self._cut(env)
        return Ending(reason, metrics, self._facts(env, deaths))

    def _facts(self, env: int, deaths: NDArray[np.int32]) -> dict[str, Any]:
        facts: dict[str, Any] = {START_NAME: self._names[env]} if self._names[env] else {}
        if self._keeps_facts:
            # The dead stay where they died.
            places = self.world.fish[env, :, :2]
            at_once = np.flatnonzero(deaths == 1).tolist()
            facts[DEATH_STEPS] = deaths.tolist()
            facts[FIRST_STEP_PLACES] = {str(fish): places[fish].tolist() for fish in at_once}
        return facts

    def _cut(self, env: int) -> str:
        """Return why an episode with survivors is over."""
        limit = int(self.world.limit[env])
        if limit == self.options.time_limit:
            return "time_limit"
        return FORCED if limit == self.options.tail.force_reset_steps else "cut"

    def configure(self, settings: Settings) -> None:
        """Take settings into account from each school's next reset on."""
        if not self._follows_settings:
            return
        if ESCAPE_BOOST.name in settings:
            self._boost = settings[ESCAPE_BOOST]
        if DENSITY_PENALTY.name in settings:
            self._density_penalty = settings[DENSITY_PENALTY]
        if SCHOOL_SIZE.name in settings:
            self._size = settings[SCHOOL_SIZE]

    def scene(self, env: int) -> Scene:
        """Return what there is to see of one school."""
        world, size = self.world, int(self.world.size[env])
        return Scene(
            fish=world.fish[env, :size].copy(),
            alive=world.alive[env, :size].copy(),
            predators=world.predators[env].copy(),
            obstacles=self._rules.obstacles,
            elapsed=int(world.elapsed[env]) / int(world.limit[env]),
            step=int(world.elapsed[env]),
            dead_for=world.elapsed[env] - world.deaths[env, :size],
        )

    def frame(self, env: int) -> NDArray[np.uint8] | None:
        """Return the present picture of one school, 800 x 800."""
        return self._sketchbooks.setdefault(env, Sketchbook()).draw(self.scene(env))

    def snapshot(self) -> State:
        """Return the state of all schools; nothing is drawn after a start, so it is complete."""
        world = self.world._asdict()
        return {name: world[name].copy() for name in _SAVED}

    def restore(self, state: State) -> None:
        """Continue from a snapshot and write the slots."""
        world = self.world._asdict()
        for name in _SAVED:
            if world[name].shape != state[name].shape:
                raise CheckpointError(
                    f"the saved schools' {name} are {state[name].shape}, not {world[name].shape}; "
                    "resume with the options of the run"
                )
            world[name][...] = state[name]
        self._show(self._numbers)

    def close(self) -> None:
        """Free what the schools hold: nothing."""

    def _begin(self, env: int, seed: int, value: Start | None) -> None:
        world = self.world
        size, boost = self._size, self._boost
        world.limit[env] = self._limit(seed)
        start = None if value is None else self._resolved(env, value)
        if value is None:
            self._names[env] = ""
        if isinstance(start, SeedStart):
            seed = start.seed
            boost = boost if start.boost is None else start.boost
            size = size if start.size is None else start.size
        if isinstance(start, PositionStart):
            size = len(start.fish)
        if not 1 <= size <= self.options.fish:
            raise EnvError(f"a start with {size} fish does not fit a school of {self.options.fish}")
        world.size[env] = size
        world.alive[env] = np.arange(self.options.fish) < size
        world.deaths[env] = np.where(world.alive[env], SURVIVED, ABSENT)
        world.elapsed[env] = 0
        world.over[env] = False
        world.density_penalty[env] = self._density_penalty
        world.fish[env, size:] = 0.0
        if isinstance(start, PositionStart):
            self._put(env, start)
        else:
            throws = np.zeros((self.options.predator.count, 3))
            if isinstance(start, ThrownStart):
                throws[0] = (*start.velocity, 2 if start.after_pre_roll else 1)
            self._draw(env, seed, boost, throws)
            if start is None and self._joint.cells:
                self._redraw(env, seed, boost, throws)

    def _resolved(self, env: int, value: Start) -> FishStart:
        """Return the start a value stands for, and keep its name if it has one."""
        name = start_name(value)
        self._names[env] = name
        if not name:
            return read_start(value)
        if name not in self._library:
            raise EnvError(
                f"start {name} is not in the tail files of this run; the files or their paths have "
                "changed since it began"
            )
        return self._library[name]

    def _redraw(self, env: int, seed: int, boost: float, throws: NDArray[np.float64]) -> None:
        """Draw further starts until one is accepted; the first is the seed's own."""
        for attempt in range(ATTEMPTS - 1):
            _, _, across, along = self.world.predators[env, 0].tolist()
            if self._joint.accepts((across, along), seed, attempt):
                return
            self._draw(env, redrawn_seed(seed, attempt + 1), boost, throws)

    def _put(self, env: int, start: PositionStart) -> None:
        predators = self.world.predators[env]
        if len(start.predators) != len(predators):
            raise EnvError(
                f"a start with {len(start.predators)} predators does not fit a world with "
                f"{len(predators)}"
            )
        self.world.fish[env, : len(start.fish)] = start.fish
        predators[:] = start.predators

    def _draw(self, env: int, seed: int, boost: float, throws: NDArray[np.float64]) -> None:
        world = self.world
        draws = draw(
            np.random.default_rng(seed),
            self.options.start,
            fish=int(world.size[env]),
            hunts=tuple(hunt_draws(self._plan, thrown=throw[2] == 1) for throw in throws),
            boost=boost,
        )
        place_school(world, env, draws, self._plan, throws, self._rules.obstacles)

    def _limit(self, seed: int) -> int:
        """Return how long the episode of this seed may last; draws nothing from its stream."""
        options = self.options
        limit = min(options.time_limit, options.tail.force_reset_steps or options.time_limit)
        if options.short_share == 0.0:
            return limit
        is_short = _share_of(seed) < options.short_share
        return min(options.short_limit, limit) if is_short else limit


def _share_of(seed: int) -> float:
    """Return a number in [0, 1) that looks random over seeds (the finalizer of splitmix64)."""
    mask = (1 << 64) - 1
    word = (seed + 0x9E3779B97F4A7C15) & mask
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
    return float((word ^ (word >> 31)) / 2.0**64)
