"""Wrappers named in a config, put around environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from longhaul.core.errors import ConfigError
from longhaul.core.plugins import find_plugin

NAME = "use"
WrapperSpec = str | dict[str, Any]
"""`module:Class`, or a table of arguments whose key `use` is that."""
WHERE = "options.wrappers"


def wrapped(env: Any, wrappers: Sequence[WrapperSpec]) -> Any:
    """Return the environment within its wrappers, the first one innermost."""
    for wrapper in wrappers:
        env = _wrapped(env, wrapper)
    return env


def _wrapped(env: Any, wrapper: WrapperSpec) -> Any:
    arguments: Mapping[str, Any] = {NAME: wrapper} if isinstance(wrapper, str) else wrapper
    name = arguments.get(NAME)
    if not isinstance(name, str) or ":" not in name:
        raise ConfigError(
            f"{WHERE}: {wrapper!r} names no wrapper; write 'module:Class', or a table with "
            f"{NAME} = 'module:Class' and its arguments"
        )
    make = find_plugin(name, group="longhaul.wrappers", built_in={}, where=WHERE)
    given = {key: value for key, value in arguments.items() if key != NAME}
    try:
        found = make(env, **given)  # type: ignore[misc]
    except Exception as error:
        raise ConfigError(f"{WHERE}: {name!r} with {given} failed: {error}") from error
    if not callable(getattr(found, "reset", None)) or not callable(getattr(found, "step", None)):
        raise ConfigError(f"{WHERE}: {name!r} returned {found!r}, which lacks reset() and step()")
    return found
