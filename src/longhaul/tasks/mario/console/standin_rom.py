"""A small two-pass 6502 assembler, enough to write a cartridge in text files.

One statement a line, comments behind `;`: `label:`, `name = value`, `.org address`, `.byte a, b`,
`.word a, b`, and instructions in the usual notation. Values are decimal, `$hex`, `%binary`, names,
and sums and differences of them; `<value` and `>value` are the low and the high byte.
"""

from __future__ import annotations

import functools
import importlib.resources
import re
from dataclasses import dataclass, field

import numpy as np

from longhaul.core.errors import ConfigError
from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.console.instructions import INSTRUCTIONS

PROGRAM_BYTES = 0x8000
BASE = 0x8000

NOTATIONS = (
    ("imm", re.compile(r"#(.+)")),
    ("izx", re.compile(r"\((.+),\s*x\)", re.IGNORECASE)),
    ("izy", re.compile(r"\((.+)\),\s*y", re.IGNORECASE)),
    ("ind", re.compile(r"\((.+)\)")),
    ("x", re.compile(r"(.+),\s*x", re.IGNORECASE)),
    ("y", re.compile(r"(.+),\s*y", re.IGNORECASE)),
    ("", re.compile(r"(.+)")),
)
OPCODES = {(entry.operation, entry.mode): entry.opcode for entry in INSTRUCTIONS if entry.official}
TWO_BYTES = frozenset(("abs", "abx", "aby", "ind"))
NAME = re.compile(r"[A-Za-z_]\w*")
SOMEWHERE = 0x7FFF
"""What a name stands for until it is met: no address of the zero page."""


class AssemblyError(ConfigError):
    """A program cannot be assembled."""


@dataclass(frozen=True, slots=True)
class Program:
    """An assembled program: 32 KiB from $8000 on, and where its names are."""

    image: bytes
    names: dict[str, int]


@dataclass
class _Pass:
    """One pass over a program."""

    is_last: bool
    known: dict[str, int]
    """The names of the pass before."""
    names: dict[str, int] = field(default_factory=dict)
    place: int = BASE
    image: bytearray = field(default_factory=lambda: bytearray(PROGRAM_BYTES))

    def statement(self, text: str) -> None:
        label, colon, rest = text.partition(":")
        if colon:
            self._define(label.strip(), self.place)
            text = rest.strip()
        if not text:
            return
        name, sign, value = text.partition("=")
        if sign:
            self._define(name.strip(), self.value(value))
            return
        word, _, rest = text.partition(" ")
        if word.startswith("."):
            self._directive(word, rest)
        else:
            self._instruction(word.upper(), rest.strip())

    def value(self, text: str) -> int:
        text = text.strip()
        if text[:1] in ("<", ">"):
            whole = self.value(text[1:])
            return whole & 0xFF if text[0] == "<" else whole >> 8 & 0xFF
        terms = re.findall(r"([+-]?)\s*([^+\-\s]+)", text)
        if not terms:
            raise AssemblyError("a value is missing")
        return sum(-self._term(term) if sign == "-" else self._term(term) for sign, term in terms)

    def _term(self, term: str) -> int:
        if term.startswith("$"):
            return int(term[1:], 16)
        if term.startswith("%"):
            return int(term[1:], 2)
        if term.isdigit():
            return int(term)
        if term in self.names:
            return self.names[term]
        if self.is_last and term not in self.known:
            raise AssemblyError(f"undefined name {term!r}")
        return self.known.get(term, SOMEWHERE)

    def _define(self, name: str, value: int) -> None:
        if not NAME.fullmatch(name):
            raise AssemblyError(f"{name!r} is not a name")
        if name in self.names:
            raise AssemblyError(f"{name!r} is defined twice")
        self.names[name] = value

    def _emit(self, *values: int) -> None:
        for value in values:
            if not BASE <= self.place < BASE + PROGRAM_BYTES:
                raise AssemblyError(f"${self.place:04X} is outside the cartridge")
            self.image[self.place - BASE] = value & 0xFF
            self.place += 1

    def _directive(self, word: str, rest: str) -> None:
        values = [self.value(part) for part in rest.split(",")]
        if word == ".org":
            self.place = values[0]
        elif word == ".byte":
            self._emit(*values)
        elif word == ".word":
            self._emit(*(byte for value in values for byte in (value, value >> 8)))
        else:
            raise AssemblyError(f"there is no directive {word!r}")

    def _instruction(self, operation: str, operand: str) -> None:
        mode, value = self._mode(operation, operand)
        if (operation, mode) not in OPCODES:
            raise AssemblyError(f"there is no {operation} {operand}".rstrip())
        self._emit(OPCODES[operation, mode])
        if mode == "rel":
            distance = value - self.place - 1
            if self.is_last and not -128 <= distance < 128:
                raise AssemblyError(f"the target is {distance} bytes away")
            self._emit(distance)
        elif mode in TWO_BYTES:
            self._emit(value, value >> 8)
        elif mode not in ("", "acc"):
            self._emit(value)

    def _mode(self, operation: str, operand: str) -> tuple[str, int]:
        if not operand or operand.lower() == "a":
            return ("acc" if (operation, "acc") in OPCODES else ""), 0
        if (operation, "rel") in OPCODES:
            return "rel", self.value(operand)
        notation, inner = next(
            (name, match.group(1))
            for name, pattern in NOTATIONS
            if (match := pattern.fullmatch(operand))
        )
        value = self.value(inner)
        if notation in ("imm", "izx", "izy", "ind"):
            return notation, value
        if value < 256 and (operation, f"zp{notation}") in OPCODES:
            return f"zp{notation}", value
        return f"ab{notation or 's'}", value


def assemble(source: str) -> Program:
    """Return the program of a source text."""
    known: dict[str, int] = {}
    for is_last in (False, True):
        one_pass = _Pass(is_last, known)
        for number, line in enumerate(source.splitlines(), start=1):
            statement = line.split(";", 1)[0].strip()
            try:
                one_pass.statement(statement)
            except (AssemblyError, ValueError) as error:
                raise AssemblyError(f"line {number}, {statement!r}: {error}") from error
        known = one_pass.names
    return Program(bytes(one_pass.image), known)


COLORS = {" ": 0, ".": 1, "o": 2, "#": 3}
GLYPHS = {
    "0": " ### #   ##   ##   ##   ##   # ###  ",
    "1": "  #   ##    #    #    #    #   ###  ",
    "2": " ### #   #    #  ##  #   #    ##### ",
    "3": " ### #   #    #  ##     ##   # ###  ",
    "4": "#   ##   ##   ######    #    #    # ",
    "5": "######    ####     #    ##   # ###  ",
    "6": " ### #    #    #### #   ##   # ###  ",
    "7": "#####    #   #   #   #    #    #    ",
    "8": " ### #   ##   # ### #   ##   # ###  ",
    "9": " ### #   ##   # ####    #    # ###  ",
    "P": "#### #   ##   ##### #    #    #    ",
    "R": "#### #   ##   ##### # #  #  # #   #",
    "E": "######    #    #### #    #    #####",
    "S": " #####    #     ###     #    ##### ",
    "T": "#####  #    #    #    #    #    #  ",
    "A": " ### #   ##   #######   ##   ##   #",
}
"""Seven rows of five."""
GLYPH_TILES = "0123456789" + " " * 16 + "PREST" + "A"
"""Which pattern of the background each of them is."""
GROUND = (
    "oooooooo",
    "o......o",
    "o......o",
    "o......o",
    "oooooooo",
    "...oo...",
    "...oo...",
    "oooooooo",
)
BRICK = (
    "########",
    "...#....",
    "...#....",
    "########",
    ".......#",
    ".......#",
    "########",
    "...#....",
)
POLE = ("   ##   ",) * 8
BAR = (*("        ",) * 6, "oooooooo", "########")
"""Below the status line; only its last line meets sprite 0."""
MARK = ("########", *("        ",) * 7)
"""Sprite 0."""
RUNNER = (
    "       ##       ",
    "       ##       ",
    "        o       ",
    "   oooooooooo   ",
    "  oooooooooooo  ",
    "  ooo...oo...o  ",
    "  ooo..#oo..#o  ",
    "  ooo...oo...o  ",
    "  oooooooooooo  ",
    "  oooo#######o  ",
    "   oooooooooo   ",
    "    oooooooo    ",
    "    ##    ##    ",
    "    ##    ##    ",
    "   ###   ###    ",
    "   ####  ####   ",
)
"""A robot."""
WALKER = (
    "                ",
    "                ",
    "  o    o    o   ",
    "  oo  ooo  oo   ",
    "  ooooooooooo   ",
    " ooooooooooooo  ",
    " o...ooooo...o  ",
    "oo.##ooooo##.oo ",
    "oo...ooooo...oo ",
    "ooooooooooooooo ",
    "oo.oo.ooo.oo.oo ",
    "ooooooooooooooo ",
    " #############  ",
    "  #  #  #  #  # ",
    "  #  #  #  #  # ",
    " ##  # ##  #  ##",
)
"""A beetle with spikes."""

GROUND_TILE, BRICK_TILE, POLE_TILE, BAR_TILE = 10, 11, 12, 13
RUNNER_TILE, WALKER_TILE = 16, 20
"""Each of four patterns: left and right of the upper half, then of the lower."""
BACKGROUND_BANK = 256


def _glyph(text: str) -> tuple[str, ...]:
    text = text.ljust(35)
    rows = [f"{text[row * 5 : row * 5 + 5]:<8}" for row in range(7)]
    return (*rows, " " * 8)


def _encode(rows: tuple[str, ...]) -> bytes:
    """Return the sixteen bytes of eight rows of eight characters."""
    numbers = np.array([[COLORS[character] for character in row] for row in rows], np.uint8)
    planes = np.stack([numbers & 1, numbers >> 1])
    return np.packbits(planes, axis=-1).tobytes()


def _quarters(rows: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the four patterns of a picture of 16x16."""
    halves = (rows[:8], rows[8:])
    return [tuple(row[side : side + 8] for row in half) for half in halves for side in (0, 8)]


def patterns() -> bytes:
    """Return the 8 KiB of patterns: sprites in the first bank, background in the second."""
    found: dict[int, tuple[str, ...]] = {}
    for character, text in GLYPHS.items():
        found[BACKGROUND_BANK + GLYPH_TILES.index(character)] = _glyph(text)
    found[BACKGROUND_BANK + GROUND_TILE] = GROUND
    found[BACKGROUND_BANK + BRICK_TILE] = BRICK
    found[BACKGROUND_BANK + POLE_TILE] = POLE
    found[BACKGROUND_BANK + BAR_TILE], found[BAR_TILE] = BAR, MARK
    for first, picture in ((RUNNER_TILE, RUNNER), (WALKER_TILE, WALKER)):
        for index, quarter in enumerate(_quarters(picture)):
            found[first + index] = quarter
    blank = bytes(16)
    return b"".join(_encode(found[tile]) if tile in found else blank for tile in range(512))


@functools.cache
def program() -> Program:
    """Return the game's program, assembled from its source."""
    folder = importlib.resources.files("longhaul.tasks.mario.console") / "standin"
    parts = sorted((part for part in folder.iterdir()), key=lambda part: part.name)
    return assemble("\n".join(part.read_text(encoding="utf-8") for part in parts))


@functools.cache
def stand_in() -> Cartridge:
    """Return the cartridge."""
    return Cartridge(program().image, patterns(), "vertical")
