"""Movies: every button of a game, frame by frame, as text that anybody can read and replay.

Ours looks like this, with `#` for remarks:

    longhaul movie 1
    cartridge 6b3189414053f975
    start 1-1
    RIGHT+B:105
    end 315 6f1c9a...

`start` is a stage or `power-on`; the lines after it are scripts, counted in frames; `end` holds x
and the first digits of the SHA-256 of the memory. A replay checks with them whether it came to the
same end. FCEUX's `.fm2` files are read as well.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from longhaul.core.errors import ConfigError
from longhaul.tasks.mario.actions import buttons, spelled
from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.game.memory import Bytes, Memory
from longhaul.tasks.mario.game.stages import Stage

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
                f"{part.strip()!r} in a script: the number after the colon must be 1 or more, "
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
        np.array([press.byte for press in presses], np.uint8), [press.count for press in presses]
    )


HEADLINE = "longhaul movie 1"
POWER_ON = "power-on"
DIGEST_DIGITS = 16
MOST_LINE = 88
STACK = slice(0x100, 0x200)
"""Left out of digests: what is below the stack pointer means nothing."""

FM2_BUTTONS = "RLDUTSBA"
"""From the highest bit of the controller's byte to the lowest."""
RESET, POWER = 1, 2
"""Bits of an fm2 line's command."""
FM2_WARM_UP = 2
"""FCEUX's picture unit sleeps for two frames, through which the game waits; ours is awake at once.
Measured against its sister core: memory is equal from there on, frame by frame."""


@dataclass(frozen=True, slots=True)
class Movie:
    """Buttons of every frame, from where on, and where they led."""

    start: Stage | None
    """None: from switching the console on."""
    pressed: Bytes  # [frames] uint8
    second_pad: Bytes  # [frames] uint8
    commands: Bytes  # [frames] uint8, RESET or POWER before the frame
    cartridge: str = ""
    """First digits of the cartridge's digest; empty: unknown."""
    end_x: int | None = None
    end_digest: str = ""
    warm_up: int = 0
    """Frames after switching on or a reset in which the recorder's console did nothing yet."""

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.pressed)

    @staticmethod
    def of(pressed: Bytes, start: Stage | None, cartridge: Cartridge | None = None) -> Movie:
        """Return a movie of one pad without resets."""
        nothing = np.zeros(len(pressed), np.uint8)
        digest = "" if cartridge is None else cartridge.digest[:DIGEST_DIGITS]
        return Movie(start, pressed, nothing, nothing, digest)

    def ended(self, ram: Bytes) -> Movie:
        """Return the movie with where it led."""
        return replace(self, end_x=int(Memory(ram).x), end_digest=memory_digest(ram))


def memory_digest(ram: Bytes) -> str:
    """Return the first digits of the SHA-256 of one console's memory without the stack."""
    used = ram[:2048].copy()
    used[STACK] = 0
    return hashlib.sha256(used.tobytes()).hexdigest()[:DIGEST_DIGITS]


def write_movie(movie: Movie) -> str:
    """Return the text of a movie."""
    if movie.second_pad.any() or movie.commands.any():
        raise ConfigError("only movies of one pad and without resets can be written")
    lines = [HEADLINE]
    if movie.cartridge:
        lines.append(f"cartridge {movie.cartridge}")
    lines.append(f"start {POWER_ON if movie.start is None else movie.start}")
    line = ""
    for press in script_text(movie.pressed).split(","):
        if line and len(line) + len(press) >= MOST_LINE:
            lines.append(line)
            line = ""
        line = f"{line},{press}" if line else press
    lines.append(line)
    if movie.end_x is not None:
        lines.append(f"end {movie.end_x} {movie.end_digest}")
    return "\n".join(line for line in lines if line) + "\n"


FM2_HEADER = (
    "version 3",
    "emuVersion 22020",
    "rerecordCount 0",
    "palFlag 0",
    "guid 00000000-0000-0000-0000-000000000000",
    "fourscore 0",
    "microphone 0",
    "port0 1",
    "port1 0",
    "port2 0",
    "FDS 0",
    "NewPPU 0",
)


def write_fm2(pressed: Bytes, rom: str) -> str:
    """Return the text of an `.fm2` that presses these buttons from switching on.

    `rom` is the name its reader shows for the game; emulators ask for their own copy.
    """
    lines = [*FM2_HEADER, f"romFilename {rom}", "comment author longhaul"]
    for byte in [0] * FM2_WARM_UP + pressed.tolist():
        pad = "".join(
            name if byte >> (7 - place) & 1 else "." for place, name in enumerate(FM2_BUTTONS)
        )
        lines.append(f"|0|{pad}|||")
    return "\n".join(lines) + "\n"


def load_movie(path: Path) -> Movie:
    """Return the movie in a file, ours or an `.fm2`."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"cannot read the movie {path}: {error.strerror}") from error
    if text.startswith(HEADLINE):
        return _read_own(text, path.name)
    if text.lstrip("\ufeff").startswith("version "):
        return read_fm2(text.lstrip("\ufeff"), path.name)
    raise ConfigError(
        f"{path} is not a movie: it starts neither with {HEADLINE!r} nor with an .fm2's 'version'"
    )


def _read_own(text: str, name: str) -> Movie:
    start: Stage | None = None
    cartridge, end_x, end_digest = "", None, ""
    scripts: list[str] = []
    for raw in text.splitlines()[1:]:
        line = raw.partition("#")[0].strip()
        word, _, rest = line.partition(" ")
        match word:
            case "cartridge":
                cartridge = rest.strip()
            case "start":
                start = None if rest.strip() == POWER_ON else Stage.parse(rest)
            case "end":
                shown, _, end_digest = rest.strip().partition(" ")
                if not shown.isdecimal():
                    raise ConfigError(f"{name}: 'end' is followed by x, a number, not {shown!r}")
                end_x = int(shown)
            case _:
                scripts.append(line)
    pressed = script_bytes(",".join(scripts))
    nothing = np.zeros(len(pressed), np.uint8)
    return Movie(start, pressed, nothing, nothing, cartridge, end_x, end_digest)


def read_fm2(text: str, name: str = "this file") -> Movie:
    """Return the movie in the text of an `.fm2` file, which begins with switching on."""
    header: dict[str, str] = {}
    frames: list[tuple[int, int, int]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("|"):
            frames.append(_fm2_frame(line, f"{name}, line {number}"))
        elif line.strip():
            key, _, value = line.partition(" ")
            header.setdefault(key, value.strip())
    _refuse_fm2(header, name)
    columns = np.array(frames, np.uint8).reshape(-1, 3)
    commands, first, second = (columns[:, field].copy() for field in range(3))
    return Movie(None, first, second, commands, warm_up=FM2_WARM_UP)


def _refuse_fm2(header: dict[str, str], name: str) -> None:
    unsupported = {
        "it was made for PAL consoles": header.get("palFlag", "0") != "0",
        "it keeps its input in binary": header.get("binary", "0") != "0",
        "it uses four pads": header.get("fourscore", "0") != "0",
        "its first controller is not a pad": header.get("port0", "1") not in ("1",),
        "its second controller is not a pad": header.get("port1", "0") not in ("0", "1"),
        "it begins with a saved state": "savestate" in header,
    }
    found = [reason for reason, present in unsupported.items() if present]
    if found:
        raise ConfigError(f"{name} cannot be replayed: {', '.join(found)}")


def _fm2_frame(line: str, where: str) -> tuple[int, int, int]:
    fields = line.split("|")
    pads = [*fields[2:4], "", ""][:2]
    if len(fields) < 4 or not (fields[1].strip() or "0").isdecimal():
        raise ConfigError(f"{where}: {line!r} is not a frame of an .fm2: |commands|RLDUTSBA|...|")
    command = int(fields[1].strip() or "0")
    first, second = (_fm2_pad(pad, where) for pad in pads)
    return command & (RESET | POWER), first, second


def _fm2_pad(pad: str, where: str) -> int:
    if not pad:
        return 0
    if len(pad) != len(FM2_BUTTONS):
        raise ConfigError(f"{where}: {pad!r} are not the eight buttons {FM2_BUTTONS}")
    byte = 0
    for pressed in pad:
        byte = byte << 1 | (pressed not in " .")
    return byte
