"""What an agent can press: named sets of button combinations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from longhaul.core.errors import ConfigError, suggestion

BUTTONS = ("A", "B", "SELECT", "START", "UP", "DOWN", "LEFT", "RIGHT")
"""From the lowest bit of a controller's byte to the highest."""
NOTHING = ("NOOP", "NONE")
"""How pressing nothing is written."""

_RIGHT = ("NOOP", "RIGHT", "RIGHT+A", "RIGHT+B", "RIGHT+A+B")
_SIMPLE = (*_RIGHT, "A", "LEFT")
SETS: dict[str, tuple[str, ...]] = {
    "right": _RIGHT,
    "simple": _SIMPLE,
    "complex": (*_SIMPLE, "LEFT+A", "LEFT+B", "LEFT+A+B", "DOWN", "UP"),
    "extended": (
        "NOOP",
        "START",
        "RIGHT",
        "RIGHT+B",
        "RIGHT+A",
        "RIGHT+A+B",
        "START+RIGHT",
        "START+RIGHT+B",
    ),
}
"""The sets by name; the order of their entries is part of every trained policy."""


def buttons(text: str) -> int:
    """Return the controller's byte of buttons joined by `+`, in any order and case."""
    if text.strip().upper() in NOTHING:
        return 0
    byte = 0
    for name in text.split("+"):
        key = name.strip().upper()
        if key not in BUTTONS:
            raise ConfigError(
                f"there is no button {name.strip()!r} in {text!r}{suggestion(key, BUTTONS)} "
                f"(buttons: {', '.join(BUTTONS)}, joined by '+', or NOOP)"
            )
        byte |= 1 << BUTTONS.index(key)
    return byte


def spelled(byte: int) -> str:
    """Return a controller's byte in words, directions first."""
    names = [name for bit, name in reversed(list(enumerate(BUTTONS))) if byte >> bit & 1]
    # A before B, as everybody writes it; the directions keep the order of their bits.
    names.sort(key=lambda name: BUTTONS.index(name) if name in ("A", "B") else -1)
    return "+".join(names) or NOTHING[0]


@dataclass(frozen=True, slots=True)
class ActionSet:
    """The combinations a policy chooses from."""

    name: str
    bytes: tuple[int, ...]

    def __len__(self) -> int:
        """Return the number of choices."""
        return len(self.bytes)

    @property
    def names(self) -> tuple[str, ...]:
        """What the choices are called."""
        return tuple(spelled(byte) for byte in self.bytes)

    def index(self, byte: int) -> int:
        """Return the choice that presses exactly these buttons, or -1."""
        return self.bytes.index(byte) if byte in self.bytes else -1


def action_set(name: str, custom: Iterable[str] = ()) -> ActionSet:
    """Return the set called `name`, or one of the user's own combinations."""
    own = tuple(custom)
    if own:
        made = ActionSet("custom", tuple(buttons(text) for text in own))
        if len(set(made.bytes)) != len(made.bytes):
            raise ConfigError(f"options.buttons lists the same buttons twice: {', '.join(own)}")
        return made
    if name not in SETS:
        raise ConfigError(
            f"options.actions: there is no set {name!r}{suggestion(name, SETS)} "
            f"(sets: {', '.join(SETS)}; or list your own in options.buttons)"
        )
    return ActionSet(name, tuple(buttons(text) for text in SETS[name]))
