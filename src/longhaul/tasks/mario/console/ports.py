"""The ports: what the program reads and writes between its memory and its cartridge."""

from __future__ import annotations

from longhaul.core.env import Array
from longhaul.core.native import integer, kernel
from longhaul.tasks.mario.console.beam import SHOWN, follow, scroll_changed, sprites_changed
from longhaul.tasks.mario.console.game import Game, Machine
from longhaul.tasks.mario.console.layout import (
    AFTER_NEXT,
    BLANK_SEEN,
    CONTROL,
    DEADLINE,
    FINE_X,
    FLAGS_CLEARED,
    FRAME_END,
    HIDDEN,
    MASK,
    NMI,
    NOTHING,
    OAM,
    OAM_ADDRESS,
    OLD_FLAGS,
    OPEN_BUS,
    ORIGIN,
    OVERFLOW_DOT,
    PAD_1,
    PALETTE,
    PARITY,
    READ_BUFFER,
    SCROLL_TAKEN,
    SECOND_WRITE,
    SHIFT_1,
    SPRITE_ZERO_DOT,
    STROBE,
    TAKEN,
    VBLANK,
    T,
    V,
)
from longhaul.tasks.mario.console.picture import table_base

PALETTE_ADDRESS = 0x3F00
INTERRUPTS = 0x80
BLANK_FLAG, HIT_FLAG, OVERFLOW_FLAG = 0x80, 0x40, 0x20


@kernel
def fetch_elsewhere(row: Array, address: int) -> int:
    """Return the byte of code at an address that is not on the cartridge."""
    if address < 0x2000:
        return integer(row[address & 0x7FF])
    return address >> 8 & 0xFF


@kernel
def palette_entry(address: int) -> int:
    """Return which of the 32 entries of the palette an address means."""
    entry = address & 0x1F
    return entry & 0x0F if entry & 3 == 0 else entry


@kernel
def _video_byte(row: Array, game: Game, address: int) -> int:
    """Return the byte of video memory behind the palette's addresses."""
    if address < 0x2000:
        return integer(game.chr[address])
    return integer(row[table_base(address, game.mirroring) + (address & 0x3FF)])


@kernel
def _step_address(registers: Array) -> None:
    step = 32 if registers[CONTROL] & 4 else 1
    registers[V] = (registers[V] + step) & 0x7FFF


@kernel
def _read_status(registers: Array, dot: int) -> int:
    """Return $2002; reading it ends the vertical blank for the program."""
    status = integer(registers[OPEN_BUS]) & 0x1F
    if dot < FLAGS_CLEARED:
        status |= registers[OLD_FLAGS]
        if registers[VBLANK]:
            status |= BLANK_FLAG
    else:
        if dot >= registers[SPRITE_ZERO_DOT]:
            status |= HIT_FLAG
        if dot >= registers[OVERFLOW_DOT]:
            status |= OVERFLOW_FLAG
        # A read just as the blank begins takes the flag, and one dot earlier keeps it from rising.
        # Up to a dot later the interrupt is lost, too.
        late = dot - registers[FRAME_END]
        if late >= 0:
            status |= BLANK_FLAG
        if late >= -1:
            registers[BLANK_SEEN] = HIDDEN if late <= 1 else TAKEN
    registers[VBLANK] = 0
    registers[SECOND_WRITE] = 0
    if registers[NMI] == AFTER_NEXT:
        registers[NMI] = NOTHING
    registers[OPEN_BUS] = status
    return status


@kernel
def _read_video(row: Array, registers: Array, machine: Machine, dot: int) -> int:
    """Return $2007: one byte behind, but for the palette."""
    address = integer(registers[V]) & 0x3FFF
    value = integer(registers[READ_BUFFER])
    registers[READ_BUFFER] = _video_byte(row, machine.game, address)
    if address >= PALETTE_ADDRESS:
        value = integer(row[PALETTE + palette_entry(address)]) & 0x3F | registers[OPEN_BUS] & 0xC0
    follow(row, registers, machine, dot)
    _step_address(registers)
    return value


@kernel
def _read_pad(registers: Array, pad: int) -> int:
    """Return the next button of a controller; after the eighth they read as pressed."""
    if registers[STROBE]:
        return 0x40 | integer(registers[PAD_1 + pad]) & 1
    pressed = integer(registers[SHIFT_1 + pad])
    registers[SHIFT_1 + pad] = pressed >> 1 | 0x80
    return 0x40 | pressed & 1


@kernel
def read_port(row: Array, registers: Array, machine: Machine, address: int, dot: int) -> int:
    """Return what is read at an address between memory and cartridge."""
    if address < 0x2000:
        return integer(row[address & 0x7FF])
    if address < 0x4000:
        port = address & 7
        if port == 2:
            return _read_status(registers, dot)
        if port == 4:
            place = integer(registers[OAM_ADDRESS])
            registers[OPEN_BUS] = row[OAM + place] & (0xE3 if place & 3 == 2 else 0xFF)
        elif port == 7:
            registers[OPEN_BUS] = _read_video(row, registers, machine, dot)
        return integer(registers[OPEN_BUS])
    if address == 0x4016 or address == 0x4017:
        return _read_pad(registers, address & 1)
    # Nothing answers: the last byte on the bus was the high byte of the address.
    return address >> 8 & 0xFF


@kernel
def _write_control(registers: Array, value: int, dot: int) -> None:
    """Write $2000; allowing interrupts in the vertical blank raises one after one instruction."""
    rises = value & INTERRUPTS and not registers[CONTROL] & INTERRUPTS
    if rises and registers[VBLANK] and dot < FLAGS_CLEARED:
        registers[NMI] = AFTER_NEXT
        registers[DEADLINE] = 0
    elif not value & INTERRUPTS and registers[NMI] == AFTER_NEXT:
        registers[NMI] = NOTHING
    registers[CONTROL] = value
    registers[T] = registers[T] & ~0x0C00 | (value & 3) << 10


@kernel
def _write_scroll(registers: Array, value: int) -> None:
    """Write $2005, across first, then down."""
    if registers[SECOND_WRITE]:
        registers[T] = registers[T] & ~0x73E0 | (value & 7) << 12 | (value & 0xF8) << 2
    else:
        registers[T] = registers[T] & ~0x1F | value >> 3
        registers[FINE_X] = value & 7
    registers[SECOND_WRITE] ^= 1


@kernel
def _write_address(registers: Array, value: int) -> None:
    """Write $2006, high byte first."""
    if registers[SECOND_WRITE]:
        registers[T] = registers[T] & 0x7F00 | value
        registers[V] = registers[T]
    else:
        registers[T] = registers[T] & 0xFF | (value & 0x3F) << 8
    registers[SECOND_WRITE] ^= 1


@kernel
def _write_video(row: Array, registers: Array, game: Game, value: int) -> None:
    """Write $2007; the patterns are on a chip that cannot be written."""
    address = integer(registers[V]) & 0x3FFF
    if address >= PALETTE_ADDRESS:
        row[PALETTE + palette_entry(address)] = value
    elif address >= 0x2000:
        row[table_base(address, game.mirroring) + (address & 0x3FF)] = value
    _step_address(registers)


@kernel
def _write_sprite_byte(row: Array, registers: Array, value: int) -> None:
    """Write $2004."""
    row[OAM + registers[OAM_ADDRESS]] = value
    registers[OAM_ADDRESS] = (registers[OAM_ADDRESS] + 1) & 0xFF


@kernel
def _write_picture_port(
    row: Array, registers: Array, game: Game, port: int, value: int, dot: int
) -> None:
    if port == 0:
        _write_control(registers, value, dot)
    elif port == 1:
        registers[MASK] = value
    elif port == 3:
        registers[OAM_ADDRESS] = value
    elif port == 4:
        _write_sprite_byte(row, registers, value)
    elif port == 5:
        _write_scroll(registers, value)
    elif port == 6:
        _write_address(registers, value)
    elif port == 7:
        _write_video(row, registers, game, value)


@kernel
def _write_while_drawing(
    row: Array, registers: Array, machine: Machine, port: int, value: int, dot: int
) -> None:
    """Write to the video chip when the beam may be affected."""
    shown = registers[MASK] & SHOWN
    if shown or machine.canvas.drawing[0] or port == 1:
        follow(row, registers, machine, dot)
    _write_picture_port(row, registers, machine.game, port, value, dot)
    if shown or registers[MASK] & SHOWN:
        if port == 0 or port == 1 or port == 4:
            sprites_changed(row, registers, machine, dot)
        else:
            scroll_changed(row, registers, machine, dot)


@kernel
def _copy_sprites(row: Array, registers: Array, machine: Machine, page: int, dot: int) -> int:
    """Copy a page into the sprites' memory; return the dots for which the CPU waits."""
    for index in range(256):
        address = page << 8 | index
        if address >= 0x8000:
            value = integer(machine.game.prg[address & 0x7FFF])
        else:
            value = read_port(row, registers, machine, address, dot)
        row[OAM + ((registers[OAM_ADDRESS] + index) & 0xFF)] = value
    if dot >= SCROLL_TAKEN:
        sprites_changed(row, registers, machine, dot)
    odd = ((dot - registers[ORIGIN]) // 3 + registers[PARITY]) & 1
    return integer((513 + odd) * 3)


@kernel
def write_port(
    row: Array, registers: Array, machine: Machine, address: int, value: int, dot: int
) -> int:
    """Write to an address between memory and cartridge; return the dots for which the CPU waits."""
    if address < 0x2000:
        row[address & 0x7FF] = value
    elif address < 0x4000:
        registers[OPEN_BUS] = value
        port = address & 7
        if dot < SCROLL_TAKEN:
            _write_picture_port(row, registers, machine.game, port, value, dot)
        else:
            _write_while_drawing(row, registers, machine, port, value, dot)
    elif address == 0x4014:
        return _copy_sprites(row, registers, machine, value, dot)
    elif address == 0x4016:
        if registers[STROBE] and not value & 1:
            registers[SHIFT_1] = registers[PAD_1]
            registers[SHIFT_1 + 1] = registers[PAD_1 + 1]
        registers[STROBE] = value & 1
    return 0


BLANK_FLAG = 0x80
AND_IMMEDIATE = 0x29
BIT_ABSOLUTE = 0x2C
LDA_ABSOLUTE = 0xAD
BPL, BMI, BVC, BVS, BNE, BEQ = 0x10, 0x30, 0x50, 0x70, 0xD0, 0xF0


@kernel
def _is_taken(branch: int, value: int) -> bool:
    """Return whether a branch after `value` is taken, as far as flags of $2002 are concerned."""
    if branch == BPL:
        return value & 0x80 == 0
    if branch == BMI:
        return value & 0x80 != 0
    if branch == BVC:
        return value & 0x40 == 0
    return branch == BVS and value & 0x40 != 0


@kernel
def _sooner(dot: int, event: int, change: int) -> int:
    return integer(event) if dot < event < change else change


@kernel
def polls_until(registers: Array, prg: Array, pc: int, opcode: int, value: int, dot: int) -> int:
    """Return the dots of the turns of a loop that will read the same as this one did.

    `pc` is behind the read, `dot` the time of the read. Loops are `LDA $2002`, perhaps an `AND`,
    and a branch back to it, or `BIT $2002` and a branch.
    """
    if opcode not in (LDA_ABSOLUTE, BIT_ABSOLUTE) or pc < 0x8003:
        return 0
    if value & BLANK_FLAG:
        # This read has taken the flag: the next one answers something else.
        return 0
    if prg[(pc - 2) & 0x7FFF] != 0x02 or prg[(pc - 1) & 0x7FFF] != 0x20:
        return 0
    following = integer(prg[pc & 0x7FFF])
    if following == AND_IMMEDIATE and opcode != BIT_ABSOLUTE:
        branch = integer(prg[(pc + 2) & 0x7FFF])
        tested = integer(value) & integer(prg[(pc + 1) & 0x7FFF])
        taken = tested != 0 if branch == BNE else (branch == BEQ and tested == 0)
        end, turn, back = pc + 4, 9 * 3, 0xF9
    else:
        branch = following
        overflow_test = branch in (BVC, BVS)
        taken = _is_taken(branch, value) and (opcode == BIT_ABSOLUTE or not overflow_test)
        end, turn, back = pc + 2, 7 * 3, 0xFB
    if not taken or prg[(end - 1) & 0x7FFF] != back:
        return 0
    if (end ^ (pc - 3)) & 0xFF00:
        turn += 3
    # Whatever may change the answer ends the waiting; the last turn is left to be read in earnest.
    change = integer(registers[DEADLINE])
    change = _sooner(dot, FLAGS_CLEARED, change)
    change = _sooner(dot, registers[SPRITE_ZERO_DOT], change)
    change = _sooner(dot, registers[OVERFLOW_DOT], change)
    turns = (change - 1 - dot) // turn - 1
    return turns * turn if turns > 0 else 0
