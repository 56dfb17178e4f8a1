from __future__ import annotations

import pytest

from longhaul.tasks.mario.console.instructions import INSTRUCTIONS, Instruction
from longhaul.tasks.mario.console.standin_rom import AssemblyError, assemble

NOTATION = {
    "": "", "acc": "a", "imm": "#$12", "zp": "$12", "zpx": "$12,x", "zpy": "$12,y",
    "abs": "$1234", "abx": "$1234,x", "aby": "$1234,y", "izx": "($12,x)", "izy": "($12),y",
    "ind": "($1234)", "rel": "$8014",
}  # fmt: skip
OPERAND = {1: b"", 2: b"\x12", 3: b"\x34\x12"}


def code(source: str, count: int) -> bytes:
    return assemble(source).image[:count]


@pytest.mark.parametrize(
    "instruction",
    [instruction for instruction in INSTRUCTIONS if instruction.official],
    ids=lambda instruction: f"{instruction.operation} {instruction.mode}".strip(),
)
def test_every_official_instruction_can_be_written(instruction: Instruction) -> None:
    expected = bytes([instruction.opcode]) + OPERAND[instruction.length]
    written = f"{instruction.operation} {NOTATION[instruction.mode]}"
    assert code(written, instruction.length) == expected


def test_names_numbers_and_halves_are_values() -> None:
    source = """
        place = $1234           ; a comment
        .byte <place, >place, %101, 7, place - $1230 + 1, $10-1
        .word place, later
    later:
    """
    assert code(source, 10) == bytes([0x34, 0x12, 5, 7, 5, 15, 0x34, 0x12, 0x0A, 0x80])


def test_branches_go_both_ways() -> None:
    assert code("again: nop\nbne again\nbeq behind\nbehind: rts", 6) == bytes(
        [0xEA, 0xD0, 0xFD, 0xF0, 0x00, 0x60]
    )


def test_code_may_be_put_anywhere_and_names_tell_where() -> None:
    program = assemble(".org $fffa\nvectors: .word vectors, $8000, 0")
    assert program.names == {"vectors": 0xFFFA}
    assert program.image[-6:] == bytes([0xFA, 0xFF, 0x00, 0x80, 0, 0])
    assert len(program.image) == 0x8000


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("lda nowhere", "undefined name 'nowhere'"),
        ("sta #1", "there is no STA #1"),
        ("mov a", "there is no MOV"),
        (".text 1", "no directive"),
        ("bne $9000", "bytes away"),
        ("1st: nop", "is not a name"),
        ("same: nop\nsame: nop", "'same' is defined twice"),
        (".org $7000\n.byte 1", "outside the cartridge"),
        ("lda #", "undefined name '#'"),
        ("lda $xy", "line 2"),
    ],
)
def test_what_cannot_be_assembled_is_told_with_its_line(line: str, words: str) -> None:
    with pytest.raises(AssemblyError, match=words):
        assemble(f"nop\n{line}")
