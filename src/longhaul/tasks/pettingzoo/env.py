"""Adapter for PettingZoo's parallel environments: every possible agent is a row."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, Ending, Start, StepBuffers
from longhaul.core.errors import ConfigError, EnvError, suggestion
from longhaul.core.settings import Settings
from longhaul.core.spaces import EnvSpec
from longhaul.core.state import State
from longhaul.envs.guard import words_of
from longhaul.envs.gymnasium.spaces import ObservationLayout, Writer, action_codec
from longhaul.envs.gymnasium.wrappers import WrapperSpec, wrapped

FAMILIES = ("pettingzoo.sisl", "pettingzoo.butterfly", "mpe2")
"""Where a module without a package is looked for."""
MAKER = "parallel_env"


def find_maker(name: str) -> Callable[..., Any]:
    """Return what makes an environment: of PettingZoo's registry, or of a module."""
    try:
        import pettingzoo
    except ImportError as error:
        raise ConfigError("PettingZoo is not installed: pip install 'longhaul-rl[marl]'") from error
    if "/" in name:
        return partial(pettingzoo.make, "parallel", name)
    module = _import(name)
    if not callable(make := getattr(module, MAKER, None)):
        raise ConfigError(
            f"the module {module.__name__!r} has no {MAKER}(){suggestion(MAKER, dir(module))}"
        )
    found: Callable[..., Any] = make
    return found


def _import(name: str) -> ModuleType:
    problem = ""
    for path in [name] if "." in name else [f"{family}.{name}" for family in FAMILIES] + [name]:
        try:
            with warnings.catch_warnings():
                # PettingZoo's own modules ask for ids of its registry, which older ones lack.
                warnings.simplefilter("ignore", DeprecationWarning)
                return importlib.import_module(path)
        except Exception as error:  # noqa: BLE001 - a module of anyone's
            # That there is no such module says less than what is wrong with one.
            is_missing = isinstance(error, ModuleNotFoundError) and path.startswith(f"{error.name}")
            if not problem or not is_missing:
                problem = str(error)
    raise ConfigError(f"the PettingZoo environment {name!r} cannot be imported: {problem}")


def make_parallel(name: str, kwargs: Mapping[str, Any]) -> Any:
    """Return the parallel environment of a name: `sisl/multiwalker-v9`, or a module's."""
    maker = find_maker(name)
    try:
        return maker(**kwargs)
    except Exception as error:
        raise ConfigError(
            f"the PettingZoo environment {name!r} cannot be made with {dict(kwargs)}: "
            f"{words_of(error)}"
        ) from error


@dataclass(frozen=True, slots=True)
class ParallelFactory:
    """Makes envs of one name; picklable, so a worker process can call it."""

    name: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    wrappers: tuple[WrapperSpec, ...] = ()
    render: bool = False

    def __call__(self) -> ParallelRows:
        """Return a freshly made env."""
        drawn = {"render_mode": "rgb_array"} if self.render else {}
        env = make_parallel(self.name, {**drawn, **self.kwargs})
        return ParallelRows(self.name, wrapped(env, self.wrappers), renders=self.render)


class ParallelRows:
    """One parallel environment behind the `Env` protocol; agents that left are inactive rows."""

    def __init__(self, name: str, env: Any, *, renders: bool) -> None:
        self._env = env
        self._renders = renders
        self._agents: list[str] = list(env.possible_agents)
        self._row = {agent: row for row, agent in enumerate(self._agents)}
        first, *others = self._agents
        for other in others:
            self._refuse_different(name, first, other)
        self._layout = ObservationLayout(env.observation_space(first))
        codec = action_codec(env.action_space(first))
        self._decode = codec.decode
        self.spec = EnvSpec(
            id=f"pettingzoo:{name}",
            observation=self._layout.parts,
            action=codec.spec,
            rows=len(self._agents),
            row_name="agent",
        )
        self._slots: StepBuffers
        self._writers: list[Writer]
        self.bind(StepBuffers.allocate(self.spec, len(self._agents)))

    def _refuse_different(self, name: str, first: str, other: str) -> None:
        for space in (self._env.observation_space, self._env.action_space):
            if space(first) != space(other):
                raise ConfigError(
                    f"pettingzoo:{name}: agents share one policy, but {first!r} has "
                    f"{space(first)} and {other!r} {space(other)}; make them alike by "
                    "options.wrappers"
                )

    def bind(self, slots: StepBuffers) -> None:
        """Write into these views, one row per agent, from the next call on."""
        self._slots = slots
        self._writers = [
            self._layout.writer({name: part[row] for name, part in slots.obs.items()})
            for row in range(len(self._agents))
        ]

    def configure(self, settings: Settings) -> None:
        """Nothing of the environment changes while training."""

    def reset(self, seed: int, start: Start | None) -> None:
        """Begin an episode."""
        seen, _ = self._env.reset(seed=seed)
        for part in self._slots.obs.values():
            part[...] = 0
        self._write(seen)
        self._slots.active[:] = False
        self._slots.active[[self._row[agent] for agent in self._env.agents]] = True

    def step(self, actions: Array) -> Ending | None:
        """Act with the agents that are there; the episode ends when none is left."""
        slots = self._slots
        acting = np.flatnonzero(slots.active).tolist()
        wished = {self._agents[row]: self._decode(actions[row : row + 1]) for row in acting}
        given = self._env.step(wished)
        if len(given) != 5:
            raise EnvError(f"{self.spec.id}: step() returned {len(given)} values instead of 5")
        seen, rewards, terminations, truncations, _ = given
        self._write(seen)
        slots.reward[:] = 0.0
        slots.terminated[:] = False
        slots.truncated[:] = False
        left = set(self._env.agents)
        for row in acting:
            agent = self._agents[row]
            slots.reward[row] = rewards.get(agent, 0.0)
            slots.terminated[row] = ended = bool(terminations.get(agent, False))
            # Who left without a reason was cut.
            gone = agent not in left
            slots.truncated[row] = not ended and (bool(truncations.get(agent, False)) or gone)
            slots.active[row] = not (slots.terminated[row] or slots.truncated[row])
        if slots.active.any():
            return None
        return Ending("time_limit" if slots.truncated.any() else "terminated")

    def _write(self, seen: Mapping[str, Any]) -> None:
        for agent, obs in seen.items():
            self._writers[self._row[agent]](obs)

    def frame(self) -> NDArray[np.uint8] | None:
        """Return the present picture, or None if made without `render`."""
        picture: Any = self._env.render() if self._renders else None
        return None if picture is None else np.asarray(picture, np.uint8)

    def snapshot(self) -> State:
        """Other people's environments cannot be saved: they are played again from their seed."""
        raise EnvError(f"{self.spec.id} is of tier replay and has no snapshots")

    def restore(self, state: State) -> None:
        """Refused, as `snapshot` is."""
        raise EnvError(f"{self.spec.id} is of tier replay and has no snapshots")

    def close(self) -> None:
        """Free what the environment holds."""
        self._env.close()
