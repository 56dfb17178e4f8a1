from __future__ import annotations

from longhaul.tasks.mario.console.program import LONGEST_BLOCK, find_blocks, find_entrances

NOP, KIL, RTS = 0xEA, 0x02, 0x60


def program(code: dict[int, list[int]], start: int = 0x8000) -> bytes:
    """Return a cartridge that stops everywhere but at the given addresses."""
    prg = bytearray([KIL]) * 0x8000
    for address, content in code.items():
        prg[address - 0x8000 : address - 0x8000 + len(content)] = bytes(content)
    prg[0x7FFA:] = start.to_bytes(2, "little") * 3
    return bytes(prg)


def test_branches_calls_and_jumps_lead_to_blocks() -> None:
    prg = program({
        0x8000: [0xF0, 0x03, 0x20, 0x00, 0x90, 0x4C, 0x00, 0xA0],  # BEQ, JSR $9000, JMP $A000
        0x9000: [RTS],
        0xA000: [RTS],
    })  # fmt: skip
    assert find_entrances(prg) == {0x8000, 0x8005, 0x9000, 0xA000}


def test_a_block_ends_where_another_begins() -> None:
    prg = program({0x8000: [NOP, NOP, NOP, 0xD0, 0xFC]})  # BNE $8001
    assert [block.address for block in find_blocks(prg)] == [0x8000, 0x8001]
    assert find_blocks(prg)[0].following == 0x8001


def test_a_long_block_is_cut() -> None:
    blocks = find_blocks(program({0x8000: [NOP] * 100 + [RTS]}))
    assert [len(block.instructions) for block in blocks] == [LONGEST_BLOCK, LONGEST_BLOCK, 5]
    assert blocks[1].address == blocks[0].following


def test_native_code_goes_on_behind_a_port() -> None:
    prg = program({0x8000: [0x8D, 0x06, 0x20, 0xAD, 0x00, 0x03, RTS]})  # STA $2006, LDA $0300
    assert find_entrances(prg) == {0x8000, 0x8003}


def test_tables_behind_a_call_are_followed() -> None:
    jump = [0x0A, 0xA8, 0x68, 0x85, 4, 0x68, 0x85, 5, 0xC8, 0xB1, 4, 0x85, 6, 0x6C, 6, 0]
    prg = program({
        0x8000: [0x20, 0x00, 0x90, 0x10, 0x80, 0x00, 0xA0, 0x20, 0x80],
        0x8010: [RTS],
        0x8020: [RTS],
        0x9000: jump,
        0xA000: [RTS],
    })  # fmt: skip
    assert {0x8010, 0x8020, 0xA000} <= find_entrances(prg)
    assert 0x8003 not in find_entrances(prg)


def test_a_program_of_nothing_has_no_blocks() -> None:
    assert find_blocks(program({})) == []
    assert find_blocks(program({}, start=0x0300)) == []


def test_nothing_is_read_behind_the_last_address() -> None:
    prg = bytearray([NOP]) * 0x8000
    prg[0x7FFA:] = bytes([0xF0, 0xFF] * 3)
    for block in find_blocks(bytes(prg)):
        assert block.following <= 0xFFFF
