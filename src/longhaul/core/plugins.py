"""Parts that other packages bring: by an entry point, as `module:Class`, or given from Python."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.metadata
import sys
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

from longhaul.core.errors import ConfigError, suggestion

MAIN = "__main__"
"""The module of a script or notebook, which no other process can import."""
_GIVEN: dict[str, Any] = {}
"""What this process was given under a name that nothing can import, such as a lambda."""


def find_plugin(name: str, *, group: str, built_in: Mapping[str, Any], where: str) -> Any | None:
    """Return what a name stands for, None if for nothing; `where` is the config key that says it.

    A built-in part comes before an installed one, and that before `module:Class`. A built-in part
    may be given as `module:Class` too, which is imported only if it is asked for.
    """
    if name in built_in:
        part = built_in[name]
        return find_reference(part, where) if isinstance(part, str) else part
    for entry in _entries(importlib.metadata.entry_points, tuple(sys.path), group):
        if entry.name == name:
            return load_entry(entry, f"{where} = {name!r}")
    return find_reference(name, where) if ":" in name else None


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


def give(name: str, thing: Any) -> None:
    """Let a name stand for a class or function in this process; it replaces an earlier one."""
    _GIVEN[name] = thing


def given(name: str) -> Any | None:
    """Return what this process was given under a name, None if nothing."""
    return _GIVEN.get(name)


def name_of(thing: Callable[..., Any]) -> str:
    """Return the `module:name` of a class or function, by which a config can hold it.

    What no module holds, such as a lambda or a function within a function, is kept for this process
    under a name of the main program. A lambda's name changes with its code.
    """
    module, path = getattr(thing, "__module__", MAIN), getattr(thing, "__qualname__", "")
    held: Any = sys.modules.get(module)
    for part in path.split("."):
        held = getattr(held, part, None)
    if path and held is thing:
        return f"{module}:{path}"
    inner = getattr(thing, "func", thing)  # of a partial
    own = getattr(inner, "__name__", type(inner).__name__)
    if inner is not thing or own == "<lambda>":
        own = f"{own.strip('<>')}-{hashlib.sha256(_words(thing).encode()).hexdigest()[:8]}"
    name = f"{MAIN}:{own}"
    give(name, thing)
    return name


def _words(thing: Any) -> str:
    """Return what a lambda or partial does, in words that are the same in every process."""
    if (inner := getattr(thing, "func", None)) is not None:
        return f"{_words(inner)} {thing.args!r} {thing.keywords!r}"
    code = getattr(thing, "__code__", None)
    if code is None:
        return repr(thing) if _is_plain(thing) else getattr(thing, "__qualname__", "")
    cells = [cell.cell_contents for cell in thing.__closure__ or ()]
    values = [*cells, *(thing.__defaults__ or ())]
    return " ".join([_code_words(code), *(_words(value) for value in values)])


def _code_words(code: CodeType) -> str:
    held = [_code_words(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {held}"


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, tuple))


def find_reference(text: str, where: str) -> Any:
    """Return the object that `module:Class` names, or that this process was given as `text`."""
    if text in _GIVEN:
        return _GIVEN[text]
    module_name, _, path = text.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        raise ConfigError(
            f"{where} = {text!r}: the module {module_name!r} cannot be imported: {_why(error)}"
        ) from error
    for part in path.split("."):
        if not hasattr(found, part):
            if module_name == MAIN:
                raise ConfigError(
                    f"{where} = {text!r} belongs to the script or notebook that started the run; "
                    f"continue it there, or in a program that defines {path!r} too"
                )
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
