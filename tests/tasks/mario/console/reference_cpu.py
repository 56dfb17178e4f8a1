"""A 6502 written down from its documentation, as slowly and literally as possible.

Every read and every write takes a cycle, those without a use included, so nothing here knows how
long an instruction takes: the bus counts. It shares nothing with the native CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.tasks.mario.console.reference_opcodes import OPCODES

CARRY, ZERO, INTERRUPT, DECIMAL, BREAK, UNUSED, OVERFLOW, NEGATIVE = (1 << bit for bit in range(8))


class Stopped(Exception):  # noqa: N818 - not an error: the program met a KIL
    """The CPU met an instruction that it never comes back from."""


class PortTouched(Exception):  # noqa: N818 - not an error: the comparison ends here
    """The program read or wrote a port, which only a whole console has."""


@dataclass
class Bus:
    """The memory of a console without its ports."""

    ram: bytearray
    prg: bytes
    cycles: int = 0

    def read(self, address: int) -> int:
        self.cycles += 1
        if address < 0x2000:
            return self.ram[address % 0x800]
        if address >= 0x8000:
            return self.prg[address - 0x8000]
        if address < 0x4020:
            raise PortTouched
        return address >> 8

    def write(self, address: int, value: int) -> None:
        self.cycles += 1
        if address < 0x2000:
            self.ram[address % 0x800] = value
        elif address < 0x4020:
            raise PortTouched


@dataclass
class ReferenceCpu:
    """The registers, and a method for each thing the CPU can do."""

    bus: Bus
    a: int = 0
    x: int = 0
    y: int = 0
    sp: int = 0xFD
    pc: int = 0
    p: int = 0x24

    def step(self) -> None:
        """Do one instruction."""
        operation, mode = OPCODES[self.fetch()]
        if operation == "KIL":
            raise Stopped
        special = SPECIAL.get(operation)
        if special is not None:
            special(self)
        elif mode in ("implied", "accumulator"):
            self.bus.read(self.pc)
            if mode == "accumulator":
                self.a = SHIFTS[operation](self, self.a)
            else:
                IMPLIED[operation](self)
        elif operation in BRANCHES:
            bit, wanted = BRANCHES[operation]
            self.branch(bit, wanted=wanted)
        elif operation in STORES:
            self.store(operation, mode)
        elif operation in SHIFTS:
            address = self.address(mode, always_looks=True)
            old = self.bus.read(address)
            self.bus.write(address, old)
            self.bus.write(address, SHIFTS[operation](self, old))
        else:
            address = self.address(mode, always_looks=False)
            LOADS[operation](self, self.bus.read(address))

    def fetch(self) -> int:
        value = self.bus.read(self.pc)
        self.pc = (self.pc + 1) % 0x10000
        return value

    def push(self, value: int) -> None:
        self.bus.write(0x100 + self.sp, value)
        self.sp = (self.sp - 1) % 256

    def pull(self) -> int:
        self.sp = (self.sp + 1) % 256
        return self.bus.read(0x100 + self.sp)

    def flag(self, bit: int, *, on: bool) -> None:
        self.p = self.p | bit if on else self.p & ~bit

    def result(self, value: int) -> int:
        """Set zero and negative by a value and return it."""
        self.flag(ZERO, on=value == 0)
        self.flag(NEGATIVE, on=value >= 128)
        return value

    def indexed(self, base: int, index: int, *, always_looks: bool) -> int:
        """Add an index; the high byte is put right one read later."""
        wrong = base - base % 256 + (base + index) % 256
        right = (base + index) % 0x10000
        if always_looks or wrong != right:
            self.bus.read(wrong)
        return right

    def address(self, mode: str, *, always_looks: bool) -> int:
        if mode == "immediate":
            address = self.pc
            self.pc = (self.pc + 1) % 0x10000
            return address
        low = self.fetch()
        if mode == "zero page":
            return low
        if mode in ("zero page,x", "zero page,y"):
            self.bus.read(low)
            return (low + (self.x if mode.endswith("x") else self.y)) % 256
        if mode == "(zero page,x)":
            self.bus.read(low)
            pointer = (low + self.x) % 256
            return self.bus.read(pointer) + 256 * self.bus.read((pointer + 1) % 256)
        if mode == "(zero page),y":
            base = self.bus.read(low) + 256 * self.bus.read((low + 1) % 256)
            return self.indexed(base, self.y, always_looks=always_looks)
        base = low + 256 * self.fetch()
        if mode == "absolute":
            return base
        index = self.x if mode.endswith("x") else self.y
        return self.indexed(base, index, always_looks=always_looks)

    def store(self, operation: str, mode: str) -> None:
        if operation not in ("SHA", "SHX", "SHY", "TAS"):
            value = STORES[operation](self)
            self.bus.write(self.address(mode, always_looks=True), value)
            return
        if operation == "TAS":
            self.sp = self.a & self.x
        index = self.x if mode.endswith("x") else self.y
        address = self.address(mode, always_looks=True)
        base = (address - index) % 0x10000
        value = STORES[operation](self) & (base // 256 + 1) % 256
        if base // 256 != address // 256:
            address = address % 256 + 256 * value
        self.bus.write(address, value)

    def branch(self, bit: int, *, wanted: bool) -> None:
        distance = self.fetch()
        if bool(self.p & bit) is not wanted:
            return
        target = (self.pc + distance - (256 if distance >= 128 else 0)) % 0x10000
        self.bus.read(self.pc)
        if target // 256 != self.pc // 256:
            self.bus.read(self.pc - self.pc % 256 + target % 256)
        self.pc = target

    def add(self, value: int) -> None:
        total = self.a + value + (self.p & CARRY)
        signed = (self.a ^ 128) - 128 + ((value ^ 128) - 128) + (self.p & CARRY)
        self.flag(CARRY, on=total > 255)
        self.flag(OVERFLOW, on=not -128 <= signed <= 127)
        self.a = self.result(total % 256)

    def compare(self, register: int, value: int) -> None:
        self.flag(CARRY, on=register >= value)
        self.result((register - value) % 256)

    def load(self, registers: str, value: int) -> None:
        for register in registers:
            setattr(self, register, self.result(value))

    def bit(self, value: int) -> None:
        self.flag(ZERO, on=self.a & value == 0)
        self.flag(NEGATIVE, on=value >= 128)
        self.flag(OVERFLOW, on=bool(value & 64))

    def arr(self, value: int) -> None:
        self.a = self.result((self.a & value) // 2 + 128 * (self.p & CARRY))
        bit_6, bit_5 = self.a // 64 % 2, self.a // 32 % 2
        self.flag(CARRY, on=bit_6 == 1)
        self.flag(OVERFLOW, on=bit_6 != bit_5)

    def anc(self, value: int) -> None:
        self.load("a", self.a & value)
        self.flag(CARRY, on=self.a >= 128)

    def sbx(self, value: int) -> None:
        both = self.a & self.x
        self.flag(CARRY, on=both >= value)
        self.x = self.result((both - value) % 256)

    def las(self, value: int) -> None:
        self.sp &= value
        self.load("ax", self.sp)

    def shift_left(self, value: int, carry_in: int) -> int:
        self.flag(CARRY, on=value >= 128)
        return self.result((value * 2 + carry_in) % 256)

    def shift_right(self, value: int, carry_in: int) -> int:
        self.flag(CARRY, on=value % 2 == 1)
        return self.result(value // 2 + 128 * carry_in)

    def then(self, value: int, use: Callable[[int], None]) -> int:
        """Use a changed byte and return it."""
        use(value)
        return value

    def brk(self) -> None:
        self.fetch()
        self.push(self.pc // 256)
        self.push(self.pc % 256)
        self.push(self.p | BREAK | UNUSED)
        self.flag(INTERRUPT, on=True)
        self.pc = self.bus.read(0xFFFE) + 256 * self.bus.read(0xFFFF)

    def jsr(self) -> None:
        low = self.fetch()
        self.bus.read(0x100 + self.sp)
        self.push(self.pc // 256)
        self.push(self.pc % 256)
        self.pc = low + 256 * self.bus.read(self.pc)

    def rts(self) -> None:
        self.bus.read(self.pc)
        self.bus.read(0x100 + self.sp)
        self.pc = self.pull() + 256 * self.pull()
        self.fetch()

    def rti(self) -> None:
        self.bus.read(self.pc)
        self.bus.read(0x100 + self.sp)
        self.p = self.pull() & ~BREAK | UNUSED
        self.pc = self.pull() + 256 * self.pull()

    def jump(self) -> None:
        self.pc = self.fetch() + 256 * self.fetch()

    def jump_indirect(self) -> None:
        low, high = self.fetch(), self.fetch()
        self.pc = self.bus.read(low + 256 * high) + 256 * self.bus.read(
            (low + 1) % 256 + 256 * high
        )

    def push_register(self, value: int) -> None:
        self.bus.read(self.pc)
        self.push(value)

    def pull_byte(self) -> int:
        self.bus.read(self.pc)
        self.bus.read(0x100 + self.sp)
        return self.pull()

    def pull_status(self) -> None:
        self.p = self.pull_byte() & ~BREAK | UNUSED


Cpu = ReferenceCpu

LOADS: dict[str, Callable[[Cpu, int], None]] = {
    "ADC": Cpu.add,
    "SBC": lambda cpu, value: cpu.add(255 - value),
    "AND": lambda cpu, value: cpu.load("a", cpu.a & value),
    "ORA": lambda cpu, value: cpu.load("a", cpu.a | value),
    "EOR": lambda cpu, value: cpu.load("a", cpu.a ^ value),
    "LDA": lambda cpu, value: cpu.load("a", value),
    "LDX": lambda cpu, value: cpu.load("x", value),
    "LDY": lambda cpu, value: cpu.load("y", value),
    "LAX": lambda cpu, value: cpu.load("ax", value),
    "LAS": Cpu.las,
    "CMP": lambda cpu, value: cpu.compare(cpu.a, value),
    "CPX": lambda cpu, value: cpu.compare(cpu.x, value),
    "CPY": lambda cpu, value: cpu.compare(cpu.y, value),
    "BIT": Cpu.bit,
    "NOP": lambda cpu, value: None,
    "ANC": Cpu.anc,
    "ALR": lambda cpu, value: cpu.load("a", cpu.shift_right(cpu.a & value, 0)),
    "ARR": Cpu.arr,
    "SBX": Cpu.sbx,
    "ANE": lambda cpu, value: cpu.load("a", (cpu.a | 0xEE) & cpu.x & value),
    "LXA": lambda cpu, value: cpu.load("ax", (cpu.a | 0xEE) & value),
}
SHIFTS: dict[str, Callable[[Cpu, int], int]] = {
    "ASL": lambda cpu, value: cpu.shift_left(value, 0),
    "ROL": lambda cpu, value: cpu.shift_left(value, cpu.p & CARRY),
    "LSR": lambda cpu, value: cpu.shift_right(value, 0),
    "ROR": lambda cpu, value: cpu.shift_right(value, cpu.p & CARRY),
    "INC": lambda cpu, value: cpu.result((value + 1) % 256),
    "DEC": lambda cpu, value: cpu.result((value - 1) % 256),
}
SHIFTS |= {
    "SLO": lambda cpu, value: cpu.then(SHIFTS["ASL"](cpu, value), lambda b: LOADS["ORA"](cpu, b)),
    "RLA": lambda cpu, value: cpu.then(SHIFTS["ROL"](cpu, value), lambda b: LOADS["AND"](cpu, b)),
    "SRE": lambda cpu, value: cpu.then(SHIFTS["LSR"](cpu, value), lambda b: LOADS["EOR"](cpu, b)),
    "RRA": lambda cpu, value: cpu.then(SHIFTS["ROR"](cpu, value), lambda b: LOADS["ADC"](cpu, b)),
    "DCP": lambda cpu, value: cpu.then(SHIFTS["DEC"](cpu, value), lambda b: LOADS["CMP"](cpu, b)),
    "ISC": lambda cpu, value: cpu.then(SHIFTS["INC"](cpu, value), lambda b: LOADS["SBC"](cpu, b)),
}
STORES: dict[str, Callable[[Cpu], int]] = {
    "STA": lambda cpu: cpu.a,
    "STX": lambda cpu: cpu.x,
    "STY": lambda cpu: cpu.y,
    "SAX": lambda cpu: cpu.a & cpu.x,
    "SHA": lambda cpu: cpu.a & cpu.x,
    "SHX": lambda cpu: cpu.x,
    "SHY": lambda cpu: cpu.y,
    "TAS": lambda cpu: cpu.sp,
}
BRANCHES: dict[str, tuple[int, bool]] = {
    "BPL": (NEGATIVE, False),
    "BMI": (NEGATIVE, True),
    "BVC": (OVERFLOW, False),
    "BVS": (OVERFLOW, True),
    "BCC": (CARRY, False),
    "BCS": (CARRY, True),
    "BNE": (ZERO, False),
    "BEQ": (ZERO, True),
}
IMPLIED: dict[str, Callable[[Cpu], None]] = {
    "NOP": lambda cpu: None,
    "CLC": lambda cpu: cpu.flag(CARRY, on=False),
    "SEC": lambda cpu: cpu.flag(CARRY, on=True),
    "CLI": lambda cpu: cpu.flag(INTERRUPT, on=False),
    "SEI": lambda cpu: cpu.flag(INTERRUPT, on=True),
    "CLD": lambda cpu: cpu.flag(DECIMAL, on=False),
    "SED": lambda cpu: cpu.flag(DECIMAL, on=True),
    "CLV": lambda cpu: cpu.flag(OVERFLOW, on=False),
    "TAX": lambda cpu: cpu.load("x", cpu.a),
    "TAY": lambda cpu: cpu.load("y", cpu.a),
    "TXA": lambda cpu: cpu.load("a", cpu.x),
    "TYA": lambda cpu: cpu.load("a", cpu.y),
    "TSX": lambda cpu: cpu.load("x", cpu.sp),
    "TXS": lambda cpu: setattr(cpu, "sp", cpu.x),
    "INX": lambda cpu: cpu.load("x", (cpu.x + 1) % 256),
    "INY": lambda cpu: cpu.load("y", (cpu.y + 1) % 256),
    "DEX": lambda cpu: cpu.load("x", (cpu.x - 1) % 256),
    "DEY": lambda cpu: cpu.load("y", (cpu.y - 1) % 256),
}
SPECIAL: dict[str, Callable[[Cpu], None]] = {
    "BRK": Cpu.brk,
    "JSR": Cpu.jsr,
    "RTS": Cpu.rts,
    "RTI": Cpu.rti,
    "JMP": Cpu.jump,
    "JMP ()": Cpu.jump_indirect,
    "PHA": lambda cpu: cpu.push_register(cpu.a),
    "PHP": lambda cpu: cpu.push_register(cpu.p | BREAK | UNUSED),
    "PLA": lambda cpu: cpu.load("a", cpu.pull_byte()),
    "PLP": Cpu.pull_status,
}
