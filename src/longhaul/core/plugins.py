"""Parts that other packages bring: by an entry point, or as `module:Class`."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import sys
from collections.abc import Callable, Mapping
from typing import Any

from longhaul.core.errors import ConfigError, suggestion


def find_plugin(name: str, *, group: str, built_in: Mapping[str, Any], where: str) -> Any | None:
    """Return what a name stands for, None if for nothing; `where` is the config key that says it.

    A built-in part comes before an installed one, and that before `module:Class`. A built-in part
    may be given as `module:Class` too, which is imported only if it is asked for.
    """
    if name in built_in:
        part = built_in[name]
        return _reference(part, where) if isinstance(part, str) else part
    for entry in _entries(importlib.metadata.entry_points, tuple(sys.path), group):
        if entry.name == name:
            return load_entry(entry, f"{where} = {name!r}")
    return _reference(name, where) if ":" in name else None


def plugin_names(group: str, built_in: Mapping[str, Any]) -> tuple[str, ...]:
    """Return all names there are: the built-in ones, then those of installed packages."""
    found = _entries(importlib.metadata.entry_points, tuple(sys.path), group)
    return tuple(dict.fromkeys([*built_in, *sorted(entry.name for entry in found)]))


def load_entry(entry: importlib.metadata.EntryPoint, what: str) -> Any:
    """Return what an entry point offers; one that cannot be loaded is an error of the config."""
    try:
        return entry.load()
    except Exception as error:
        package = f" of {entry.dist.name}" if entry.dist is not None else ""
        raise ConfigError(
            f"{what}: the plugin {entry.value!r}{package} cannot be loaded: {_why(error)}"
        ) from error


def _reference(text: str, where: str) -> Any:
    """Return the object `module:Class` names."""
    module_name, _, path = text.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        raise ConfigError(
            f"{where} = {text!r}: the module {module_name!r} cannot be imported: {_why(error)}"
        ) from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise ConfigError(
                f"{where} = {text!r}: the module {module_name!r} has no {path!r}"
                f"{suggestion(part, dir(found))}"
            )
        found = getattr(found, part)
    return found


def _why(error: Exception) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


@functools.lru_cache(maxsize=64)
def _entries(
    find: Callable[..., Any], path: tuple[str, ...], group: str
) -> tuple[importlib.metadata.EntryPoint, ...]:
    """Return what is installed in a group; looking through all packages takes 10 ms a time."""
    return tuple(find(group=group))
