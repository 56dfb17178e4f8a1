"""Making a Gymnasium env by its id, with errors that name the remedy."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import find_highest_version
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from longhaul.core.errors import ConfigError, EnvError, LonghaulError
from longhaul.core.plugins import MAIN, give, given
from longhaul.envs.guard import user_line, words_of
from longhaul.envs.gymnasium.wrappers import NAME, WrapperSpec, wrapped

GymnasiumAny = gym.Env[Any, Any]

EnvMaker = Callable[..., GymnasiumAny]
"""A class of environments, or a function that makes one."""

NO_LIMIT = 2**63 - 1
_PATH = re.compile(r"[^\W\d][\w.]*")
"""The name of a class or function in a module; `Name-v0` is an id that the module registers."""

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
    if render:
        for name, value in _OFF_SCREEN.items():
            os.environ.setdefault(name, value)
    try:
        env = _made(env_id, kwargs, render=render)
    except LonghaulError:
        raise
    except gym.error.DependencyNotInstalled as error:
        raise ConfigError(_missing_dependency(env_id, error)) from error
    except ModuleNotFoundError as error:
        raise ConfigError(_missing_module(env_id, error)) from error
    except (gym.error.UnregisteredEnv, gym.error.DeprecatedEnv) as error:
        raise ConfigError(_unknown(env_id, error)) from error
    except gym.error.Error as error:
        raise ConfigError(f"environment {env_id!r} cannot be made: {error}") from error
    except TypeError as error:
        raise _wrong_arguments(env_id, kwargs, error) from error
    except Exception as error:
        raise EnvError(f"environment {env_id!r} cannot be made: {words_of(error)}") from error
    return _lightened(wrapped(env, wrappers))


def register_env(name: str, maker: EnvMaker) -> None:
    """Let `gym:name` stand for a class or function that makes an environment, in this process."""
    if not re.fullmatch(r"[\w.-]+", name):
        raise ConfigError(f"environment name {name!r} may contain only letters, digits, _, . and -")
    if name in gym.registry:
        raise ConfigError(f"Gymnasium knows an environment {name!r} already; choose another name")
    if not callable(maker):
        raise ConfigError(
            f"register_env({name!r}, ...) takes a class or a function that makes an environment, "
            f"not {maker!r}"
        )
    give(name, maker)


def find_maker(env_id: str) -> EnvMaker | None:
    """Return the class or function that an id stands for; None if it is one of Gymnasium's ids.

    It was given in this process, or it is `module:Class` where the module registers no such id.
    """
    if (maker := given(env_id)) is not None:
        return maker  # type: ignore[no-any-return]  # checked when it was given
    module, _, path = env_id.partition(":")
    if not _PATH.fullmatch(path):
        return None
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError:
        return None  # Gymnasium's own words for it are explained by `open_gymnasium`
    if path in gym.registry or find_highest_version(None, path) is not None:
        return None
    for part in path.split("."):
        found = getattr(found, part, None)
    return found if callable(found) else None


def refuse_local(env_id: str, wrappers: Sequence[WrapperSpec]) -> None:
    """Raise if worker processes cannot make this environment: it belongs to the main program."""
    names = [one if isinstance(one, str) else str(one.get(NAME)) for one in wrappers]
    for name in (env_id, *names):
        if name.startswith(f"{MAIN}:") or given(name) is not None:
            raise ConfigError(
                f"env.runtime = 'processes': no worker can import {name!r}, which belongs to the "
                "main program; move it to a module, or use env.runtime = 'serial'"
            )


def _made(env_id: str, kwargs: Mapping[str, Any], *, render: bool) -> GymnasiumAny:
    """Return the env of an id, or that a class or function makes, which draws if asked to."""
    drawn = {"render_mode": "rgb_array", **kwargs} if render else dict(kwargs)
    maker = find_maker(env_id)
    if maker is None:
        return gym.make(env_id, disable_env_checker=True, **drawn)
    limit = drawn.pop("max_episode_steps", None)
    if "render_mode" not in inspect.signature(maker).parameters:
        drawn.pop("render_mode", None)
    env: object = maker(**drawn)
    if not isinstance(env, gym.Env):
        raise ConfigError(f"{env_id!r} made {env!r}, which is not a gymnasium.Env")
    if render and env.render_mode is None and "rgb_array" in env.metadata.get("render_modes", ()):
        env.unwrapped.render_mode = "rgb_array"
    return env if limit is None else TimeLimit(env, limit)


def _lightened(env: GymnasiumAny) -> Opened:
    """Remove the outermost wrappers that check or count.

    A vector env resets before it steps and counts steps anyway, so their calls per step are saved.
    Those inside another wrapper stay: that wrapper may use them.
    """
    limit = NO_LIMIT
    while type(env) in (TimeLimit, OrderEnforcing, PassiveEnvChecker):
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
    if given(env_id) is not None or ":" in env_id or not re.search(r"-v\d+$", env_id):
        return
    try:
        gym.spec(env_id)
    except gym.error.Error as error:
        raise ConfigError(_unknown(env_id, error)) from error


def _unknown(env_id: str, error: Exception) -> str:
    wanted = env_id.partition(":")[2] or env_id
    if env_id.startswith(f"{MAIN}:"):
        return (
            f"environment {env_id!r} belongs to the script or notebook that started the run; "
            "continue from Python with longhaul.resume(path, env=...), its class or function"
        )
    if wanted.startswith("ALE/"):
        remedy = (
            f"Atari games are tasks: atari:{wanted.removeprefix('ALE/').rpartition('-v')[0]} "
            f"(needs pip install 'longhaul-rl[atari]'), or the bare 'gym:ale_py:{wanted}'"
        )
    elif nearest := _nearest(wanted) or _nearest_class(env_id):
        remedy = f"did you mean {nearest!r}?"
    else:
        remedy = "name your own env 'module:Name-v0', where importing the module registers it"
    reason = str(error).partition(" Did you mean")[0]
    return f"environment {env_id!r} is not known to Gymnasium ({reason}); {remedy}"


def _nearest_class(env_id: str) -> str | None:
    """Return the class or function that a user most likely meant with `module:Clas`."""
    module, _, path = env_id.partition(":")
    held = vars(sys.modules[module]) if module in sys.modules else {}
    close = difflib.get_close_matches(path, [name for name in held if callable(held[name])], n=1)
    return f"{module}:{close[0]}" if close else None


def _nearest(wanted: str) -> str | None:
    """Return the registered id a user most likely meant, whatever its case and version."""
    by_folded = {known.lower(): known for known in sorted(gym.registry)}
    close = difflib.get_close_matches(wanted.lower(), list(by_folded), n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None
