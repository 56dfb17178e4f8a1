"""Making a Gymnasium env by its id, with errors that name the remedy."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
from gymnasium.wrappers import OrderEnforcing, TimeLimit

from longhaul.core.errors import ConfigError, EnvError
from longhaul.envs.guard import user_line, words_of
from longhaul.envs.gymnasium.wrappers import WrapperSpec, wrapped

GymnasiumAny = gym.Env[Any, Any]

NO_LIMIT = 2**63 - 1

_PACKAGES = {
    "ale_py": "pip install 'longhaul-rl[atari]'",
    "highway_env": "pip install highway-env",
    "minigrid": "pip install minigrid",
    "miniworld": "pip install miniworld",
    "imageio": "pip install 'longhaul-rl[mujoco]'",
    "mujoco": "pip install 'longhaul-rl[mujoco]'",
    "pygame": "pip install 'gymnasium[classic-control]'",
    "shimmy": "pip install shimmy",
}
"""How to install modules that are known; other names may belong to unrelated packages."""
_MISSING_ARGUMENTS = re.compile(r"missing \d+ required [\w-]+(?: [\w-]+)? arguments?: (.+)")

_OFF_SCREEN = {
    "SDL_VIDEODRIVER": "dummy",
    "SDL_AUDIODRIVER": "dummy",
    "PYGAME_HIDE_SUPPORT_PROMPT": "1",
}
"""Pygame draws into memory, but warns without a screen and a sound card."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A Gymnasium env without the wrappers that this adapter replaces, and its time limit."""

    env: GymnasiumAny
    time_limit: int

    @property
    def is_bare(self) -> bool:
        """Whether no wrapper is left that could hold state."""
        return self.env is self.env.unwrapped


def open_gymnasium(
    env_id: str, kwargs: Mapping[str, Any], wrappers: Sequence[WrapperSpec] = (), *, render: bool
) -> Opened:
    """Return the env called `env_id`, made with `kwargs`, within `wrappers`."""
    _register_missing(env_id)
    arguments = dict(kwargs)
    if render:
        arguments = {"render_mode": "rgb_array", **kwargs}
        for name, value in _OFF_SCREEN.items():
            os.environ.setdefault(name, value)
    try:
        env = gym.make(env_id, disable_env_checker=True, **arguments)
    except gym.error.DependencyNotInstalled as error:
        raise ConfigError(_missing_dependency(env_id, error)) from error
    except ModuleNotFoundError as error:
        raise ConfigError(_missing_module(env_id, error)) from error
    except (gym.error.UnregisteredEnv, gym.error.DeprecatedEnv) as error:
        raise ConfigError(_unknown(env_id, error)) from error
    except gym.error.Error as error:
        raise ConfigError(f"environment {env_id!r} cannot be made: {error}") from error
    except TypeError as error:
        raise _wrong_arguments(env_id, arguments, error) from error
    except Exception as error:
        raise EnvError(f"environment {env_id!r} cannot be made: {words_of(error)}") from error
    return _lightened(wrapped(env, wrappers))


def _lightened(env: GymnasiumAny) -> Opened:
    """Remove the outermost order and time-limit wrappers.

    A vector env resets before it steps and counts steps anyway, so both calls per step are saved.
    Those inside another wrapper stay: that wrapper may use them.
    """
    limit = NO_LIMIT
    while type(env) in (TimeLimit, OrderEnforcing):
        wrapper: Any = env
        if type(env) is TimeLimit:
            if env.spec is None or env.spec.max_episode_steps is None:
                break
            limit = min(limit, env.spec.max_episode_steps)
        env = wrapper.env
    return Opened(env, limit)


def _missing_dependency(env_id: str, error: Exception) -> str:
    # Gymnasium names its own extras: that of Box2D needs a compiler, see docs/decisions/0002.
    for simulator, extra in (("Box2D", "box2d"), ("MuJoCo", "mujoco")):
        if extra in str(error).lower():
            return f"environment {env_id!r} needs {simulator}: pip install 'longhaul-rl[{extra}]'"
    return f"environment {env_id!r} lacks a package: {error}"


def _missing_module(env_id: str, error: ModuleNotFoundError) -> str:
    # Gymnasium raises again, without a name, when the module in front of an id is missing.
    inner = error.__cause__ if isinstance(error.__cause__, ModuleNotFoundError) else error
    asked_for = env_id.partition(":")[0]
    module = inner.name or asked_for
    top = module.partition(".")[0]
    if top in _PACKAGES:
        remedy = f"`{_PACKAGES[top]}`"
    elif top == asked_for.partition(".")[0]:
        remedy = (
            "put the folder that holds it on PYTHONPATH, or install your package with "
            "`pip install -e FOLDER`"
        )
    else:
        remedy = "install the package it belongs to"
    return (
        f"environment {env_id!r} needs the Python module {module!r}, which was not found; {remedy}"
    )


def _wrong_arguments(
    env_id: str, arguments: Mapping[str, Any], error: TypeError
) -> ConfigError | EnvError:
    """Return the error for a TypeError: wrong arguments, or a failure inside the constructor."""
    # Gymnasium raises it again with a different message.
    first = error.__context__ if isinstance(error.__context__, TypeError) else error
    if user_line(first.__traceback__):
        return EnvError(f"environment {env_id!r} cannot be made: {words_of(first)}")
    if found := _MISSING_ARGUMENTS.search(str(first)):
        names = re.findall(r"'(\w+)'", found[1])
        given = " ".join(f"--set options.kwargs.{name}=..." for name in names)
        listed = ", ".join(repr(name) for name in names)
        return ConfigError(f"environment {env_id!r} needs arguments ({listed}): give {given}")
    return ConfigError(
        f"environment {env_id!r} does not take the arguments {dict(arguments)!r}: {first}"
    )


def _register_missing(env_id: str) -> None:
    """Add the ids of installed tasks unless this one is known already."""
    if env_id not in gym.registry:
        # Imported here: it searches all installed packages, which takes 10 ms.
        from longhaul.envs.gymnasium.ids import register

        register()


def check_id(env_id: str) -> None:
    """Raise if Gymnasium does not know an id, as far as that can be known without making it."""
    _register_missing(env_id)
    # A module in front is imported only when the env is made, and a missing version filled in.
    if ":" in env_id or not re.search(r"-v\d+$", env_id):
        return
    try:
        gym.spec(env_id)
    except gym.error.Error as error:
        raise ConfigError(_unknown(env_id, error)) from error


def _unknown(env_id: str, error: Exception) -> str:
    wanted = env_id.partition(":")[2] or env_id
    if wanted.startswith("ALE/"):
        remedy = (
            f"Atari games are tasks: atari:{wanted.removeprefix('ALE/').rpartition('-v')[0]} "
            f"(needs pip install 'longhaul-rl[atari]'), or the bare 'gym:ale_py:{wanted}'"
        )
    elif nearest := _nearest(wanted):
        remedy = f"did you mean {nearest!r}?"
    else:
        remedy = "name your own env 'module:Name-v0', where importing the module registers it"
    reason = str(error).partition(" Did you mean")[0]
    return f"environment {env_id!r} is not known to Gymnasium ({reason}); {remedy}"


def _nearest(wanted: str) -> str | None:
    """Return the registered id a user most likely meant, whatever its case and version."""
    by_folded = {known.lower(): known for known in sorted(gym.registry)}
    close = difflib.get_close_matches(wanted.lower(), list(by_folded), n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None
