"""Small programs for the tests, assembled."""

from __future__ import annotations

from longhaul.tasks.mario.console.instructions import INSTRUCTIONS, Instruction
from longhaul.tasks.mario.console.standin_rom import Program, assemble

VECTORS = """
        .org $fffa
        .word interrupt, begin, broken
"""

NO_INTERRUPTS = """
interrupt:
broken: rti
"""

DELAY = """
; Wait for Y times 1286 cycles, less one.
begin:
outer:  ldx #0
inner:  dex
        bne inner
        dey
        bne outer
"""

OPERANDS = {
    "": "", "acc": "a", "imm": "#$a7", "zp": "$10", "zpx": "$f8,x", "zpy": "$f8,y",
    "abs": "$0310", "abx": "$03f8,x", "aby": "$03f8,y", "izy": "($22),y",
}  # fmt: skip
INDEXES = ((1, 9), (9, 200), (200, 1))
BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFF)
FLAGS = (0x00, 0x01, 0x40, 0x80, 0xC3, 0x02)
ELSEWHERE = ("BRK", "JSR", "RTS", "RTI", "JMP")


def _exercise(number: int, instruction: Instruction) -> list[str]:
    """Return one instruction with what it needs in front of it."""
    x, y = INDEXES[number % len(INDEXES)]
    lines = [f"lda #{FLAGS[number % len(FLAGS)]}", "pha", "plp"]
    lines += [f"ldx #{x}", f"ldy #{y}", f"lda #{BYTES[number % len(BYTES)]}"]
    if instruction.mode == "izx":
        return [*lines, f"{instruction.operation} ({(0x22 - x) & 0xFF},x)"]
    return [*lines, f"{instruction.operation} {OPERANDS[instruction.mode]}"]


def _branches() -> list[str]:
    """Return every branch, taken and not, forwards within a page."""
    lines = []
    for number, operation in enumerate(("bpl", "bmi", "bvc", "bvs", "bcc", "bcs", "bne", "beq")):
        for flags in (0x00, 0xC3):
            label = f"behind_{number}_{flags}"
            lines += [f"lda #{flags}", "pha", "plp", f"{operation} {label}", "nop", f"{label}:"]
    return lines


CROSSINGS = """
        jmp forwards
forwards_done:
        jsr call
        lda #3
        brk
        .byte 0
        jmp (pointer)
jumped: nop
done:   jmp done
call:   lda #0
        rts
broken: inc $40
        rti
interrupt:
        inc $41
        rti
        .org $c0fc
forwards:                       ; a branch into the next page, and one back
        ldx #2
        bne over
        nop
        nop
over:   dex
        bne over
        jmp after
        .org $c1f8
before: jmp forwards_done
        .org $c20a
after:  lda #1
        bne before
        .org $cfff
pointer:                        ; its high byte is taken from the same page
        .byte <jumped
        .org $cf00
        .byte >jumped
"""


def every_opcode() -> Program:
    """Return a program that does every official instruction after a delay."""
    lines = ["lda #$23", "sta $22", "lda #$03", "sta $23"]
    for number, instruction in enumerate(INSTRUCTIONS):
        is_plain = instruction.operation not in ELSEWHERE and instruction.mode != "rel"
        if instruction.official and is_plain:
            lines += _exercise(number, instruction)
    return assemble("\n".join([DELAY, *lines, *_branches(), CROSSINGS, VECTORS]))


def polling(loop: str) -> Program:
    """Return a program that waits in a loop, then stops; `loop` ends in a branch to `wait`."""
    return assemble(f"begin: nop\nwait: {loop}\n.byte $02\n{NO_INTERRUPTS}{VECTORS}")


GALLERY = """
age        = $12
exhibit    = $11
seed       = $13              ; and $14
control    = $15
mask       = $16
scroll_x   = $17
scroll_y   = $18
sprites    = $0200

begin:  sei
        cld
        ldx #$ff
        txs
        inx
        stx $2000
        stx $2001
first:  bit $2002
        bpl first
        txa
clear:  sta $00,x
        sta $0100,x
        sta $0200,x
        sta $0300,x
        sta $0400,x
        sta $0500,x
        sta $0600,x
        sta $0700,x
        inx
        bne clear
second: bit $2002
        bpl second
        lda #$5a
        sta seed
        lda #$c3
        sta seed+1
        lda #$20
        sta $2006
        lda #0
        sta $2006
        ldy #16
table:  jsr random
        sta $2007
        inx
        bne table
        dey
        bne table
        lda #$3f
        sta $2006
        lda #0
        sta $2006
color: jsr random
        and #$3f
        sta $2007
        inx
        cpx #32
        bne color
        lda #8
        sta age
        lda #$80
        sta control
third:  bit $2002
        bpl third
        lda #$80
        sta $2000
main:   lda age
        cmp #8
        bcc main
        ldx #0
fill:   jsr random
        sta sprites,x
        txa
        and #3
        bne other
        lda sprites,x           ; no sprite on the last lines: some consoles show it on the first
        cmp #223
        bcc other
        lda #$f8
        sta sprites,x
other:  inx
        bne fill
        jsr random
        and #%00111011
        ora #$80
        sta control
        jsr random
        sta scroll_x
        jsr random
        cmp #240
        bcc high
        and #$7f
high:   sta scroll_y
        lda exhibit
        and #7
        tax
        lda masks,x
        sta mask
        inc exhibit
        lda #0
        sta age
        jmp main

random: stx $20
        ldx #8
bit_on: lsr seed+1
        ror seed
        bcc same
        lda seed+1
        eor #$b4
        sta seed+1
same:   dex
        bne bit_on
        ldx $20
        lda seed
        rts

interrupt:
        pha
        lda $2002
        lda #0
        sta $2003
        lda #>sprites
        sta $4014
        lda control
        sta $2000
        lda scroll_x
        sta $2005
        lda scroll_y
        sta $2005
        lda mask
        sta $2001
        inc age
        pla
        rti
broken: rti
"""


def gallery(masks: tuple[int, ...]) -> Program:
    """Return a program that shows random scenes, eight frames each; eight masks take turns."""
    table = f"masks: .byte {', '.join(str(mask) for mask in masks)}"
    return assemble("\n".join([GALLERY, table, VECTORS]))
