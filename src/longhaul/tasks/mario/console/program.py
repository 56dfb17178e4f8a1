"""A cartridge's program, taken apart into blocks of instructions that run one after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from longhaul.tasks.mario.console.instructions import INSTRUCTIONS, Instruction
from longhaul.tasks.mario.console.operations import BRANCH_IF

FIRST_ADDRESS = 0x8000
"""Where the cartridge begins for the CPU."""
PORTS = 0x2000
VECTORS = (0xFFFA, 0xFFFC, 0xFFFE)
LONGEST_BLOCK = 48
"""Instructions; a block is only entered when all of it fits before the next event."""
LONGEST_TABLE = 64

ENDS_BLOCK = frozenset(("JMP", "RTS", "RTI", "JSR"))
NEEDS_CARE = frozenset(("BRK", "KIL"))


@dataclass(frozen=True, slots=True)
class Located:
    """An instruction at its address, with the bytes behind the opcode as a number."""

    address: int
    instruction: Instruction
    operand: int

    @property
    def following(self) -> int:
        """The address behind it."""
        return self.address + self.instruction.length

    @property
    def target(self) -> int:
        """Where a branch goes if it is taken."""
        return (self.following + (self.operand ^ 0x80) - 0x80) & 0xFFFF

    @property
    def may_touch_port(self) -> bool:
        """Whether its operand is, or may well be, between memory and cartridge."""
        in_between = PORTS <= self.operand < FIRST_ADDRESS
        return in_between and self.instruction.mode in ("abs", "abx", "aby")

    @property
    def is_translatable(self) -> bool:
        """Whether it can become native code; everything else is done by the careful step."""
        return (
            self.instruction.official
            and self.instruction.operation not in NEEDS_CARE
            and self.following <= 0xFFFF
        )


@dataclass(frozen=True, slots=True)
class Block:
    """Instructions without an entrance but the first; taken branches leave it."""

    instructions: tuple[Located, ...]

    @property
    def address(self) -> int:
        """Where it begins."""
        return self.instructions[0].address

    @property
    def following(self) -> int:
        """The address behind its last instruction."""
        return self.instructions[-1].following


def _byte(prg: bytes, address: int) -> int:
    return prg[address & 0x7FFF]


def _word(prg: bytes, address: int) -> int:
    return _byte(prg, address) | _byte(prg, address + 1) << 8


def decode_at(prg: bytes, address: int) -> Located:
    """Return the instruction at an address of a program of 32 KiB."""
    instruction = INSTRUCTIONS[_byte(prg, address)]
    operand = 0
    if instruction.length > 1:
        operand = _byte(prg, address + 1)
    if instruction.length > 2:
        operand |= _byte(prg, address + 2) << 8
    return Located(address, instruction, operand)


def _straight(prg: bytes, address: int) -> Iterator[Located]:
    """Yield the instructions from an address to the first that always leads elsewhere."""
    while FIRST_ADDRESS <= address <= 0xFFFF:
        located = decode_at(prg, address)
        if not located.is_translatable:
            return
        yield located
        if located.instruction.operation in ENDS_BLOCK:
            return
        address = located.following


def _jumps_by_table(prg: bytes, address: int) -> bool:
    """Return whether a subroutine looks up where to go in a table behind the call.

    Such a one takes its return address from the stack and ends in an indirect jump.
    """
    operations = [located.instruction.operation for located in _straight(prg, address)]
    last_is_indirect = bool(operations) and operations[-1] == "JMP"
    return last_is_indirect and operations.count("PLA") == 2 and "PHA" not in operations


def _table_entries(prg: bytes, begin: int) -> list[int]:
    """Return the addresses in a table behind a call; it ends where the code it leads to begins."""
    found: list[int] = []
    end = min(begin + 2 * LONGEST_TABLE, 0xFFFA)
    position = begin
    while position < end:
        target = _word(prg, position)
        if target < FIRST_ADDRESS:
            break
        found.append(target)
        if target > position:
            end = min(end, target)
        position += 2
    return found


def _led_to(prg: bytes, located: Located) -> list[int]:
    """Return where an instruction may lead beside the one that follows."""
    operation = located.instruction.operation
    if operation in BRANCH_IF:
        return [located.target]
    if operation == "JMP":
        return [located.operand] if located.instruction.mode == "abs" else []
    if located.may_touch_port:
        # The careful step does it; the native code goes on behind it.
        return [located.following]
    if operation == "JSR":
        if _jumps_by_table(prg, located.operand):
            return [located.operand, *_table_entries(prg, located.following)]
        return [located.operand, located.following]
    return []


def find_entrances(prg: bytes) -> set[int]:
    """Return the addresses that other code is seen to lead to, from the three vectors on.

    What is missed is still run, by the careful step; what is found in error is never run.
    """
    entrances: set[int] = set()
    seen: set[int] = set()
    waiting = [_word(prg, vector) for vector in VECTORS]
    while waiting:
        entrance = waiting.pop()
        if entrance < FIRST_ADDRESS or entrance in entrances:
            continue
        entrances.add(entrance)
        for located in _straight(prg, entrance):
            if located.address in seen:
                # Another way leads here: both go on in the same block.
                entrances.add(located.address)
                break
            seen.add(located.address)
            waiting += _led_to(prg, located)
    return entrances


def find_blocks(prg: bytes) -> list[Block]:
    """Return the blocks of a program of 32 KiB, by address."""
    entrances = find_entrances(prg)
    waiting = sorted(entrances)
    blocks: dict[int, Block] = {}
    while waiting:
        entrance = waiting.pop()
        if entrance in blocks:
            continue
        taken: list[Located] = []
        for located in _straight(prg, entrance):
            if taken and located.address in entrances:
                break
            if len(taken) == LONGEST_BLOCK:
                waiting.append(located.address)
                break
            taken.append(located)
        if taken:
            blocks[entrance] = Block(tuple(taken))
    return [blocks[address] for address in sorted(blocks)]
