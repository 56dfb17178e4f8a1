"""Scripts: buttons and how long they are held, as text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longhaul.core.errors import ConfigError
from longhaul.tasks.mario.actions import buttons, spelled
from longhaul.tasks.mario.game.memory import Bytes

MOST_HELD = 1_000_000


@dataclass(frozen=True, slots=True)
class Press:
    """Buttons and for how long; frames or decisions, as the reader counts."""

    byte: int
    count: int

    def __str__(self) -> str:
        """Return it as a script has it."""
        return spelled(self.byte) + (f":{self.count}" if self.count != 1 else "")


def parse_script(text: str) -> tuple[Press, ...]:
    """Return the presses of `RIGHT+B:180,NOOP:10,A`: buttons, a colon, how long; 1 without it."""
    presses = []
    for part in text.split(","):
        if not part.strip():
            continue
        names, colon, count = part.partition(":")
        if colon and not (count.strip().isdecimal() and 1 <= int(count) <= MOST_HELD):
            raise ConfigError(
                f"{part.strip()!r} in a script: behind the colon stands how long, 1 or more, "
                f"not {count.strip()!r}"
            )
        presses.append(Press(buttons(names), int(count) if colon else 1))
    return tuple(presses)


def script_text(pressed: Bytes) -> str:
    """Return the script that presses these buttons one after another."""
    presses: list[Press] = []
    for byte in pressed.tolist():
        if presses and presses[-1].byte == byte:
            presses[-1] = Press(byte, presses[-1].count + 1)
        else:
            presses.append(Press(byte, 1))
    return ",".join(map(str, presses))


def script_bytes(text: str) -> Bytes:
    """Return the buttons of a script one after another."""
    presses = parse_script(text)
    return np.repeat(
        np.array([press.byte for press in presses], np.uint8),
        [press.count for press in presses],
    )
