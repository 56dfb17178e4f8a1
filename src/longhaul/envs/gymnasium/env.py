"""Adapter for Gymnasium environments.

An env may offer more than Gymnasium requires; this is used:

- an action mask, as `info["action_mask"]` or a method `action_masks()`;
- the reason of an episode's end, as `info["end_reason"]`, and success, as `info["is_success"]`;
- exact states, as methods `snapshot()` and `restore(state)` of the unwrapped env;
- settings, through a method `apply_settings(values)` of the unwrapped env, called before a reset;
- hard starts, through `reset(options={"start": start})`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import find_highest_version, get_env_id, parse_env_id
from numpy.typing import NDArray

from longhaul.core.env import Array, Ending, SingleEnvs, Start, StepBuffers
from longhaul.core.errors import ConfigError, EnvError
from longhaul.core.settings import Settings
from longhaul.core.spaces import ActionSpec, Continuous, EnvSpec, Tier
from longhaul.core.state import State
from longhaul.envs.config import EnvConfig
from longhaul.envs.guard import words_of
from longhaul.envs.gymnasium.make import find_maker, open_gymnasium
from longhaul.envs.gymnasium.spaces import ObservationLayout, SpaceForms, Writer, action_codec
from longhaul.envs.gymnasium.wrappers import WrapperSpec
from longhaul.envs.processes.isolated import call_with_retries

MaskSource = Literal["detect", "none", "info", "method"]
MASK_KEY = "action_mask"
MOST_ATTEMPTS = 3  # to make an environment in another process
OLD_API = (
    "environment {0!r} uses the old Gym API: {1}; port it to reset(seed, options) -> (observation, "
    "info) and step(action) -> (observation, reward, terminated, truncated, info), see "
    "gymnasium.farama.org/introduction/migration_guide"
)


@runtime_checkable
class _Snapshots(Protocol):
    def snapshot(self) -> Any: ...

    def restore(self, state: Any) -> None: ...


@runtime_checkable
class _AppliesSettings(Protocol):
    def apply_settings(self, values: Mapping[str, Any]) -> None: ...


class GymnasiumEnv:
    """One Gymnasium env behind the `Env` protocol; it has one row."""

    def __init__(
        self,
        env_id: str,
        kwargs: Mapping[str, Any] | None = None,
        wrappers: Sequence[WrapperSpec] = (),
        *,
        render: bool = False,
        masks: MaskSource = "detect",
        tier: Tier | None = None,
    ) -> None:
        opened = open_gymnasium(env_id, kwargs or {}, wrappers, render=render)
        self._id = env_id
        self._env = opened.env
        close: Any = opened.env.close
        self._close: Callable[[], None] = close
        self._limit = opened.time_limit
        self._renders = render
        try:
            self._refuse_old_api()
            self._layout = ObservationLayout(self._env.observation_space)
            codec = action_codec(self._env.action_space)
        except EnvError:
            self._close()
            raise
        except ConfigError as error:
            self._close()
            raise ConfigError(f"environment {env_id!r}: {error}") from error
        self._decode = codec.decode
        self._step = self._env.step
        self._mask_source = self._find_masks(codec.spec) if masks == "detect" else masks
        self._has_masks = self._mask_source != "none"
        bare: object = self._env.unwrapped
        self._snapshots = bare if opened.is_bare and isinstance(bare, _Snapshots) else None
        self._takes_settings = bare if isinstance(bare, _AppliesSettings) else None
        self.spec = EnvSpec(
            id=env_id,
            observation=self._layout.parts,
            action=codec.spec,
            tier=tier or (Tier.REPLAY if self._snapshots is None else Tier.SNAPSHOT),
            has_masks=self._has_masks,
        )
        if self.spec.tier is Tier.SNAPSHOT and self._snapshots is None:
            raise ConfigError(
                f"environment {env_id!r} cannot be tier snapshot: it lacks snapshot() and "
                "restore(), or has a wrapper whose state they omit; use tier replay"
            )
        self._settings: Settings | None = None
        self._elapsed = 0
        self._kinds_checked = False
        self._flags_to_write = True
        self._slots: StepBuffers
        self._reward: Array
        self._write: Writer
        self.bind(StepBuffers.allocate(self.spec, 1))

    @property
    def forms(self) -> SpaceForms:
        """How the env itself writes observations and actions."""
        return SpaceForms(self._env.observation_space, self._env.action_space)

    @property
    def mask_source(self) -> MaskSource:
        """Where the env gives its action mask, `none` if it gives none."""
        return self._mask_source

    def bind(self, slots: StepBuffers) -> None:
        """Write into these views, one row, from the next call on."""
        self._slots = slots
        self._reward = slots.reward
        self._write = self._layout.writer({name: part[0] for name, part in slots.obs.items()})
        self._flags_to_write = True

    def reset(self, seed: int, start: Start | None) -> None:
        """Begin an episode: write obs, active and mask."""
        if self._settings is not None and self._takes_settings is not None:
            self._takes_settings.apply_settings(self._settings.values())
            self._settings = None
        options = None if start is None else {"start": start}
        given: Any = self._env.reset(seed=seed, options=options)
        if not self._kinds_checked:
            self._refuse_bare(given)
        obs, info = given
        if not self._kinds_checked:
            self._layout.refuse_foreign_kinds(obs)
            self._kinds_checked = True
        self._write(obs)
        if self._has_masks:
            self._write_mask(info)
        self._slots.active[0] = True
        self._elapsed = 0
        self._flags_to_write = True

    def step(self, actions: Array) -> Ending | None:
        """Act with `actions` [1, ...]; write all but `started`; return the ending if over."""
        given: Any = self._step(self._decode(actions))
        try:
            obs, reward, terminated, truncated, info = given
        except ValueError as error:
            raise EnvError(
                OLD_API.format(self._id, f"step() returns {len(given)} values")
            ) from error
        self._elapsed = elapsed = self._elapsed + 1
        self._write(obs)
        self._reward[0] = reward
        if self._has_masks:
            self._write_mask(info)
        if elapsed >= self._limit:
            truncated = True
        # Flags are written only when they change: this is the hot path of small envs.
        if terminated or truncated or self._flags_to_write:
            return self._write_flags(
                terminated=bool(terminated), truncated=bool(truncated), info=info
            )
        return None

    def configure(self, settings: Settings) -> None:
        """Take settings into account from the next reset on."""
        self._settings = settings

    def frame(self) -> NDArray[np.uint8] | None:
        """Return the present picture [height, width, 3], or None if made without `render`."""
        if not self._renders:
            return None
        try:
            picture: Any = self._env.render()
        except Exception as error:
            problem = f"environment {self._id!r} cannot be drawn: {words_of(error)}"
            raise EnvError(problem) from error
        return None if picture is None else np.asarray(picture, np.uint8)

    def snapshot(self) -> State:
        """Return the state in mid-episode (tier snapshot only)."""
        assert self._snapshots is not None
        return {
            "env": self._snapshots.snapshot(),
            "elapsed": self._elapsed,
            "obs": {name: part.copy() for name, part in self._slots.obs.items()},
            "mask": None if self._slots.mask is None else self._slots.mask.copy(),
        }

    def restore(self, state: State) -> None:
        """Continue from a snapshot and write the slots (tier snapshot only)."""
        assert self._snapshots is not None
        self._snapshots.restore(state["env"])
        self._elapsed = state["elapsed"]
        for name, part in self._slots.obs.items():
            part[...] = state["obs"][name]
        if self._slots.mask is not None:
            self._slots.mask[...] = state["mask"]
        self._slots.active[0] = True
        self._flags_to_write = True

    def close(self) -> None:
        """Free what the simulator holds."""
        self._close()

    def _write_flags(
        self, *, terminated: bool, truncated: bool, info: Mapping[str, Any]
    ) -> Ending | None:
        slots = self._slots
        slots.terminated[0] = terminated
        slots.truncated[0] = truncated
        slots.forced[0] = False
        self._flags_to_write = terminated or truncated
        if not self._flags_to_write:
            return None
        reason = info.get("end_reason", "terminated" if terminated else "time_limit")
        success = info.get("is_success")
        return Ending(str(reason), {} if success is None else {"is_success": float(success)})

    def _find_masks(self, action: ActionSpec) -> MaskSource:
        """Find out by a first reset whether the env gives action masks, and where."""
        if isinstance(action, Continuous):
            return "none"
        if self._env.has_wrapper_attr("action_masks"):
            return "method"
        return "info" if MASK_KEY in self._first_reset() else "none"

    def _first_reset(self) -> Mapping[str, Any]:
        """Return the info of a reset; refuse an env with the old Gym API."""
        env_id = self._id
        try:
            given: Any = self._env.reset(seed=0)
        except Exception as error:
            raise EnvError(
                f"environment {env_id!r} failed in its first reset: {words_of(error)}"
            ) from error
        self._refuse_bare(given)
        info: Mapping[str, Any] = given[1]
        return info

    def _refuse_bare(self, given: object) -> None:
        """Refuse the return value of an old Gym API reset."""
        if not (isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], Mapping)):
            problem = "reset() does not return (observation, info)"
            raise EnvError(OLD_API.format(self._id, problem))

    def _refuse_old_api(self) -> None:
        """Refuse an env whose reset takes no seed, without calling it: it may hang or crash."""
        taken = inspect.signature(self._env.unwrapped.reset).parameters.values()
        if not any(one.name == "seed" or one.kind is one.VAR_KEYWORD for one in taken):
            raise EnvError(OLD_API.format(self._id, "reset() takes no seed"))

    def _write_mask(self, info: Mapping[str, Any]) -> None:
        mask = self._slots.mask
        assert mask is not None
        if self._mask_source == "method":
            given = self._env.get_wrapper_attr("action_masks")()
        elif MASK_KEY in info:
            given = info[MASK_KEY]
        else:
            raise EnvError(f"info has no {MASK_KEY!r}, although the first reset gave one")
        # Masks of several choices may come side by side or as one array for each.
        split = isinstance(given, (tuple, list)) and np.ndim(given[0]) > 0
        flat = np.concatenate(given) if split else np.ravel(given)
        if flat.shape != mask.shape[1:]:
            raise EnvError(f"the action mask has {len(flat)} entries, not {mask.shape[1]}")
        mask[0] = flat


@dataclass(frozen=True, slots=True)
class GymnasiumFactory:
    """Makes Gymnasium envs; picklable, so a worker process can call it."""

    env_id: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    wrappers: tuple[WrapperSpec, ...] = ()
    render: bool = False
    masks: MaskSource = "detect"
    tier: Tier | None = None

    def __call__(self) -> GymnasiumEnv:
        """Return a freshly made env."""
        return GymnasiumEnv(
            self.env_id,
            self.kwargs,
            self.wrappers,
            render=self.render,
            masks=self.masks,
            tier=self.tier,
        )


def describe(factory: Callable[[], GymnasiumEnv]) -> EnvSpec:
    """Return the shapes and promises of the envs a factory makes, by making one."""
    env = factory()
    try:
        return env.spec
    finally:
        env.close()


def gymnasium_envs(factory: GymnasiumFactory) -> SingleEnvs:
    """Return the source of the envs `factory` makes; one is made here to read its spec."""
    env = factory()
    try:
        known = replace(factory, masks=env.mask_source)
        drawn = replace(known, render=True)
        return SingleEnvs(env.spec, known, make_drawn=drawn, forms=env.forms)
    finally:
        with suppress(Exception):  # reported when the envs of a run are closed
            env.close()


@dataclass(frozen=True, slots=True)
class ProbedEnv:
    """Properties of an environment that are known only after making it."""

    envs: SingleEnvs
    solved: float | None


def probe(factory: GymnasiumFactory, config: EnvConfig) -> ProbedEnv:
    """Make an environment once to learn its properties; in another process if it runs in one."""
    if config.runtime != "processes":
        return _probe(factory)
    limits = config.processes
    try:
        known = call_with_retries(
            partial(_probe, factory),
            seconds=limits.construct_seconds,
            attempts=min(MOST_ATTEMPTS, limits.construct_restarts + 1),
        )
    except EnvError as error:
        if str(error).startswith("environment "):
            raise
        raise EnvError(f"environment {factory.env_id!r} cannot be made: {error}") from error
    return replace(known, envs=replace(known.envs, prefers_processes=True))


def _probe(factory: GymnasiumFactory) -> ProbedEnv:
    return ProbedEnv(gymnasium_envs(factory), _threshold(factory.env_id))


def _threshold(env_id: str) -> float | None:
    """Return the score Gymnasium counts as solved, for an id from which envs were made."""
    if find_maker(env_id) is not None:
        return None
    # `gym.make` takes a module in front and fills in a missing version, `gym.spec` does neither.
    known = env_id.rpartition(":")[2]
    if known not in gym.registry:
        namespace, name, _ = parse_env_id(known)
        known = get_env_id(namespace, name, find_highest_version(namespace, name))
    return gym.spec(known).reward_threshold
