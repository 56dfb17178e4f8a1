"""A cartridge's program as a module of LLVM: one function per block, each jumping to the next.

The functions hand the CPU's registers on in the machine's own (LLVM's `ghccc` convention) and call
each other in tail position, so going from block to block is one jump. A block leaves the native
code in front of any instruction that is not official, that cannot be sure to begin before the next
event, or that touches a port other than the `quiet_ports`; the careful step of `cpu` does that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from longhaul.tasks.mario.console import layout
from longhaul.tasks.mario.console.instructions import Lowering
from longhaul.tasks.mario.console.operations import (
    ADDRESS,
    BRANCH_IF,
    LEAVES_PAGE,
    MODIFY,
    OTHER,
    READ,
    STATUS,
    TAKE_STATUS,
    WRITE,
)
from longhaul.tasks.mario.console.program import FIRST_ADDRESS, Block, Located, find_blocks
from longhaul.tasks.mario.console.quiet_ports import BEHIND_PADS, quiet_lines

HANDED_ON = ("a", "x", "y", "sp", "c", "nz", "v", "dot", "deadline")
PARAMETERS = "ptr %row, " + ", ".join(f"i64 %{name}" for name in HANDED_ON)
ZERO_PAGE = frozenset(("zp", "zpx", "zpy"))
CHANGES_INTERRUPTS = frozenset(("CLI", "SEI", "CLD", "SED", "PLP", "RTI"))
LOOKS_AT_INTERRUPTS = frozenset(("PHP",))
RAM_END, ROM_BEGIN = 0x2000, FIRST_ADDRESS


def block_name(address: int) -> str:
    """Return the name of the function of a block."""
    return f"block_{address:04X}"


class BlockWriter:
    """The function of one block, in the making."""

    def __init__(self, block: Block, known: Iterable[int]) -> None:
        self._block = block
        self._known = frozenset(known)
        self._code = Lowering({"row": "%row", "prg": "@prg"})
        self._code.names = {name: f"%{name}" for name in HANDED_ON}
        self._dots = 0  # to be added to `dot` before it is read
        self._is_open = True

    def write(self) -> list[str]:
        """Return the lines of the function."""
        self._enter()
        for located in self._block.instructions:
            if self._is_open:
                self._instruction(located)
        if self._is_open:
            self._go_on(self._block.following)
        head = f"define ghccc void @{block_name(self._block.address)}({PARAMETERS}) nounwind {{"
        return [head, *self._code.text, "}"]

    def _enter(self) -> None:
        """Leave again at once if the last instruction might begin too late."""
        latest = sum(
            3 * located.instruction.cycles + 3 * located.instruction.pays_for_pages
            for located in self._block.instructions[:-1]
        )
        fits = self._code.test(f"dot + {latest} < deadline")
        self._leave_unless(fits, self._block.address)

    def _leave_unless(self, condition: str, address: int) -> None:
        code = self._code
        stay, leave = code.label("stay"), code.label("leave")
        code.text.append(f"  br i1 {condition}, label %{stay}, label %{leave}, !prof !0")
        code.text.append(f"{leave}:")
        self._leave(str(address))
        code.text.append(f"{stay}:")

    def _arguments(self, extra_dots: int = 0) -> str:
        code = self._code
        dots = self._dots + extra_dots
        dot = code.names["dot"] if not dots else code.emit(f"add i64 {code.names['dot']}, {dots}")
        values = [dot if name == "dot" else code.names[name] for name in HANDED_ON]
        return "ptr %row, " + ", ".join(f"i64 {value}" for value in values)

    def _call(self, function: str, arguments: str) -> None:
        self._code.text.append(f"  musttail call ghccc void {function}({arguments})")
        self._code.text.append("  ret void")

    def _leave(self, pc: str, extra_dots: int = 0) -> None:
        place = self._code.pointer("%row", str(4 * layout.PC))
        narrow = self._code.emit(f"trunc i64 {pc} to i32")
        self._code.text.append(f"  store i32 {narrow}, ptr {place}")
        self._call("@leave", self._arguments(extra_dots))

    def _go_on(self, address: int, extra_dots: int = 0) -> None:
        """Jump to an address that is known."""
        if address in self._known:
            self._call(f"@{block_name(address)}", self._arguments(extra_dots))
        else:
            self._leave(str(address), extra_dots)

    def _dispatch(self) -> None:
        """Jump to the address that `pc` stands for."""
        code = self._code
        pc = code.names["pc"]
        index = code.value(f"pc & {ROM_BEGIN - 1:#x}")
        place = code.emit(f"getelementptr ptr, ptr @blocks, i64 {index}")
        block = code.emit(f"load ptr, ptr {place}")
        in_rom = code.test(f"pc >= {ROM_BEGIN:#x}")
        found = code.emit(f"icmp ne ptr {block}, null")
        go, leave = code.label("go"), code.label("leave")
        both = code.emit(f"and i1 {in_rom}, {found}")
        code.text.append(f"  br i1 {both}, label %{go}, label %{leave}, !prof !0")
        code.text.append(f"{leave}:")
        self._leave(pc)
        code.text.append(f"{go}:")
        self._call(block, self._arguments())

    def _instruction(self, located: Located) -> None:
        operation, mode = located.instruction.operation, located.instruction.mode
        code = self._code
        code.names["low"] = str(located.operand & 0xFF)
        code.names["high"] = str(located.operand >> 8)
        code.names["pc"] = str(located.following)
        if operation in BRANCH_IF:
            self._branch(located)
        elif operation == "JMP":
            self._jump(located)
        elif mode == "acc":
            code.run(["value = a", *MODIFY[operation], "a = value"])
            self._dots += 3 * located.instruction.cycles
        elif operation in OTHER:
            self._other(located)
        else:
            self._memory(located)

    def _branch(self, located: Located) -> None:
        code = self._code
        self._dots += 3 * located.instruction.cycles
        condition = code.test(BRANCH_IF[located.instruction.operation])
        taken, otherwise = code.label("taken"), code.label("otherwise")
        code.text.append(f"  br i1 {condition}, label %{taken}, label %{otherwise}")
        code.text.append(f"{taken}:")
        leaves_page = (located.target ^ located.following) & 0xFF00
        self._go_on(located.target, 6 if leaves_page else 3)
        code.text.append(f"{otherwise}:")

    def _jump(self, located: Located) -> None:
        if located.instruction.mode == "abs" and located.operand == located.address:
            self._wait(located)
        elif located.instruction.mode == "abs":
            self._dots += 3 * located.instruction.cycles
            self._go_on(located.operand)
            self._is_open = False
        else:
            self._jump_by_pointer(located)

    def _wait(self, located: Located) -> None:
        """Take all turns of a jump to itself at once: it waits for an interrupt."""
        code = self._code
        turn = 3 * located.instruction.cycles
        self._dots += turn
        code.names["dot"] = code.emit(f"add i64 {code.names['dot']}, {self._dots}")
        self._dots = 0
        ahead = code.value(f"deadline - dot + {turn - 1}")
        turns = code.emit(f"sdiv i64 {ahead}, {turn}")
        rest = code.emit(f"mul i64 {turns}, {turn}")
        waits = code.test("dot < deadline")
        extra = code.emit(f"select i1 {waits}, i64 {rest}, i64 0")
        code.names["dot"] = code.emit(f"add i64 {code.names['dot']}, {extra}")
        self._leave(str(located.address))
        self._is_open = False

    def _jump_by_pointer(self, located: Located) -> None:
        # The high byte of the target is looked for in the same page as the low byte.
        places = (located.operand, located.operand & 0xFF00 | (located.operand + 1) & 0xFF)
        self._is_open = False
        if RAM_END <= located.operand < ROM_BEGIN:
            self._leave(str(located.address))
            return
        low, high = (self._code.load(self._static_place(place)) for place in places)
        self._code.names["low"], self._code.names["high"] = low, high
        self._code.run(["pc = low | high << 8"])
        self._dots += 3 * located.instruction.cycles
        self._dispatch()

    def _static_place(self, address: int) -> str:
        if address < RAM_END:
            return self._code.pointer("%row", str(address & 0x7FF))
        return self._code.pointer("@prg", str(address & 0x7FFF))

    def _other(self, located: Located) -> None:
        operation = located.instruction.operation
        if operation in CHANGES_INTERRUPTS | LOOKS_AT_INTERRUPTS:
            self._fetch_interrupts()
        self._code.run(OTHER[operation])
        if operation in CHANGES_INTERRUPTS:
            self._keep_interrupts()
        self._dots += 3 * located.instruction.cycles
        if operation == "JSR":
            self._go_on(located.operand)
            self._is_open = False
        elif operation in ("RTS", "RTI"):
            self._dispatch()
            self._is_open = False

    def _fetch_interrupts(self) -> None:
        """Take the two rare flags from where they are kept; they are not passed on."""
        place = self._code.pointer("%row", str(4 * layout.P))
        self._code.names["value"] = self._code.load(place)
        self._code.run(TAKE_STATUS[1:3])

    def _keep_interrupts(self) -> None:
        place = self._code.pointer("%row", str(4 * layout.P))
        self._code.store(place, self._code.value("i << 2 | d << 3"))

    def _memory(self, located: Located) -> None:
        instruction, code = located.instruction, self._code
        code.run(ADDRESS.get(instruction.mode, []))
        if located.may_touch_port and self._is_done_as_quiet(located):
            return
        changes = instruction.writes or instruction.modifies
        place = ""
        if instruction.mode == "imm":
            code.names["value"] = code.names["low"]
        else:
            place = self._place(located, changes=changes)
            if not place:
                self._leave(str(located.address))
                self._is_open = False
                return
            if not instruction.writes:
                code.names["value"] = code.load(place)
        operation = instruction.operation
        code.run({**READ, **WRITE, **MODIFY}[operation])
        if changes:
            code.store(place, code.names["value"])
        self._dots += 3 * instruction.cycles
        if instruction.pays_for_pages:
            self._pay_for_page(located)

    def _is_done_as_quiet(self, located: Located) -> bool:
        """Do what concerns a quiet port alone; return whether the instruction was such a one."""
        lines = quiet_lines(located)
        if lines is None:
            return False
        if located.instruction.mode != "abs":
            self._leave_unless(self._code.test(BEHIND_PADS), located.address)
        self._code.run(lines)
        self._dots += 3 * located.instruction.cycles
        return True

    def _pay_for_page(self, located: Located) -> None:
        if located.instruction.mode != "izy" and located.operand & 0xFF == 0:
            return  # no index leads out of a page from its first byte
        code = self._code
        extra = code.emit(f"select i1 {code.test(LEAVES_PAGE)}, i64 3, i64 0")
        code.names["dot"] = code.emit(f"add i64 {code.names['dot']}, {extra}")

    def _place(self, located: Located, *, changes: bool) -> str:
        """Return a pointer to the operand, or nothing where only the careful step may go."""
        mode, code = located.instruction.mode, self._code
        if mode in ZERO_PAGE:
            return code.pointer("%row", code.names["address"])
        lowest, highest = 0, 0xFFFF
        if mode == "abs":
            lowest = highest = located.operand
        elif mode in ("abx", "aby") and located.operand + 0xFF <= 0xFFFF:
            lowest, highest = located.operand, located.operand + 0xFF
        rom_is_allowed = not changes
        if highest < RAM_END:
            return code.pointer("%row", code.value("address & 0x7FF"))
        if lowest >= ROM_BEGIN and rom_is_allowed:
            return code.pointer("@prg", code.value("address & 0x7FFF"))
        if lowest >= RAM_END and (highest < ROM_BEGIN or not rom_is_allowed):
            return ""
        return self._place_if_allowed(located, rom_is_allowed=rom_is_allowed)

    def _place_if_allowed(self, located: Located, *, rom_is_allowed: bool) -> str:
        code = self._code
        in_ram = code.test(f"address < {RAM_END:#x}")
        if not rom_is_allowed:
            self._leave_unless(in_ram, located.address)
            return code.pointer("%row", code.value("address & 0x7FF"))
        in_rom = code.test(f"address >= {ROM_BEGIN:#x}")
        self._leave_unless(code.emit(f"or i1 {in_ram}, {in_rom}"), located.address)
        ram = code.pointer("%row", code.value("address & 0x7FF"))
        rom = code.pointer("@prg", code.value("address & 0x7FFF"))
        return code.emit(f"select i1 {in_ram}, ptr {ram}, ptr {rom}")


def _register(code: Lowering, register: int) -> str:
    place = code.pointer("%row", str(4 * register))
    return code.emit(f"sext i32 {code.emit(f'load i32, ptr {place}')} to i64")


def _keep(code: Lowering, register: int, value: str) -> None:
    narrow = code.emit(f"trunc i64 {value} to i32")
    code.text.append(f"  store i32 {narrow}, ptr {code.pointer('%row', str(4 * register))}")


def _write_leave() -> list[str]:
    """Return the function that puts the registers back into the row; `pc` is there already."""
    code = Lowering({})
    code.names = {name: f"%{name}" for name in HANDED_ON}
    for register in ("A", "X", "Y", "SP", "DOT"):
        _keep(code, getattr(layout, register), f"%{register.lower()}")
    code.names["value"] = _register(code, layout.P)
    code.run(TAKE_STATUS[1:3])
    _keep(code, layout.P, code.value(STATUS))
    return [
        f"define internal ghccc void @leave({PARAMETERS}) nounwind {{",
        *code.text,
        "  ret void",
        "}",
    ]


def _write_run() -> list[str]:
    """Return the function that is called from outside: run until the program leaves."""
    code = Lowering({})
    for register in ("A", "X", "Y", "SP", "PC", "P", "DOT", "DEADLINE"):
        code.names[register.lower()] = _register(code, getattr(layout, register))
    for register in ("a", "x", "y", "sp"):
        code.run([f"{register} = {register} & 0xFF"])
    code.run(["value = p", *TAKE_STATUS])
    place = code.emit(f"getelementptr ptr, ptr @blocks, i64 {code.value('pc & 0x7FFF')}")
    block = code.emit(f"load ptr, ptr {place}")
    known = code.emit(f"icmp ne ptr {block}, null")
    both = code.emit(f"and i1 {known}, {code.test('pc >= 0x8000')}")
    values = ", ".join(f"i64 {code.names[name]}" for name in HANDED_ON)
    return [
        "define void @run(ptr %row) nounwind {",
        *code.text,
        f"  br i1 {both}, label %go, label %stay",
        "go:",
        f"  call ghccc void {block}(ptr %row, {values})",
        "  ret void",
        "stay:",
        "  ret void",
        "}",
    ]


def _write_tables(prg: bytes, known: Sequence[int]) -> list[str]:
    names = {address & 0x7FFF: block_name(address) for address in known}
    blocks = (f"ptr @{names[index]}" if index in names else "ptr null" for index in range(0x8000))
    data = ", ".join(f"i8 {byte}" for byte in prg)
    return [
        f"@prg = internal constant [{len(prg)} x i8] [{data}]",
        f"@blocks = internal constant [{0x8000} x ptr] [{', '.join(blocks)}]",
        '!0 = !{!"branch_weights", i32 1000, i32 1}',
    ]


def translate(prg: bytes) -> str:
    """Return the module of a program of 32 KiB; its function `run` takes a pointer to a row."""
    blocks = find_blocks(prg)
    known = [block.address for block in blocks]
    lines = _write_tables(prg, known)
    for block in blocks:
        lines += BlockWriter(block, known).write()
    return "\n".join([*lines, *_write_leave(), *_write_run(), ""])
