; ---- sprites
draw:
        jsr hide_sprites
        lda low_x
        sec
        sbc edge_x
        sta work                ; x on the screen
        lda player_y
        clc
        adc #15
        sta work+1
        lda #runner_tile
        sta work+2
        ldy #4
        lda screens_down
        cmp #1
        bne no_runner
        lda #0
        jsr put_sprites
no_runner:
        ldx #4
draw_walker:
        lda enemy_active,x
        beq next_drawn
        lda enemy_type,x
        cmp #walker_type
        bne next_drawn
        lda enemy_x,x
        sec
        sbc edge_x
        sta work
        lda enemy_page,x
        sbc edge_page
        bne next_drawn
        lda work
        cmp #240
        bcs next_drawn
        lda enemy_y,x
        clc
        adc #7
        sta work+1
        lda #walker_tile
        sta work+2
        lda #1
        jsr put_sprites
next_drawn:
        dex
        bpl draw_walker
        rts

; Put four sprites at work, work+1 from pattern work+2 on, palette in A, from sprite byte Y on.
put_sprites:
        sta work+3
        lda work+1
        sta sprites,y
        sta sprites+4,y
        clc
        adc #8
        sta sprites+8,y
        sta sprites+12,y
        lda work+2
        sta sprites+1,y
        clc
        adc #1
        sta sprites+5,y
        adc #1
        sta sprites+9,y
        adc #1
        sta sprites+13,y
        lda work+3
        sta sprites+2,y
        sta sprites+6,y
        sta sprites+10,y
        sta sprites+14,y
        lda work
        sta sprites+3,y
        sta sprites+11,y
        clc
        adc #8
        sta sprites+7,y
        sta sprites+15,y
        tya
        clc
        adc #16
        tay
        rts

hide_sprites:
        ldy #4
        lda #$f8
hide:
        sta sprites,y
        iny
        iny
        iny
        iny
        bne hide
        rts

; ---- the status line: the score and the clock
put_status:
        lda sub_mode
        cmp #runs
        bne no_status
        bit $2002
        lda #$20
        sta $2006
        lda #$43
        sta $2006
        ldx #0
score_digit:
        lda score,x
        sta $2007
        inx
        cpx #6
        bne score_digit
        lda #$20
        sta $2006
        lda #$59
        sta $2006
        ldx #0
clock_digit:
        lda clock,x
        sta $2007
        inx
        cpx #3
        bne clock_digit
no_status:
        rts

; ---- the title; the picture is off while it is written
show_title:
        lda #0
        sta $2000
        sta $2001
        sta mode
        sta sub_mode
        lda #2
        sta lives
        jsr hide_sprites
        lda #$f8
        sta sprites
        jsr clear_screens
        bit $2002
        lda #$21
        sta $2006
        lda #$ea
        sta $2006
        ldx #0
next_letter:
        lda title_text,x
        bmi title_written
        sta $2007
        inx
        bne next_letter
title_written:
        bit $2002
        rts

load_palette:
        bit $2002
        lda #$3f
        sta $2006
        lda #0
        sta $2006
        ldx #0
next_colour:
        lda palette,x
        sta $2007
        inx
        cpx #32
        bne next_colour
        lda world               ; every other world is played at night
        lsr a
        bcc by_day
        lda #$3f
        sta $2006
        lda #0
        sta $2006
        lda #$0c
        sta $2007
by_day:
        rts

clear_screens:
        bit $2002
        lda #$20
        sta $2006
        lda #0
        sta $2006
        ldy #2
one_screen:
        ldx #240
        lda #empty_tile
four_tiles:
        sta $2007
        sta $2007
        sta $2007
        sta $2007
        dex
        bne four_tiles
        ldx #64
        lda #0
attributes:
        sta $2007
        dex
        bne attributes
        dey
        bne one_screen
        rts

title_text:                     ; press start
        .byte 26, 27, 28, 29, 29, 14, 29, 30, 31, 27, 30, $ff
palette:
        .byte $22,$37,$17,$30, $22,$30,$27,$0f, $22,$2a,$1a,$0f, $22,$30,$21,$0f
        .byte $22,$36,$12,$16, $22,$37,$17,$0f, $22,$30,$27,$0f, $22,$30,$21,$0f

columns:
        .byte $02,$02,$02,$12,$02,$22,$22,$02,$02,$00,$00,$02,$02,$02,$12,$02
        .byte $02,$03,$03,$02,$02,$02,$22,$22,$12,$02,$02,$00,$00,$02,$02,$02
        .byte $02,$12,$02,$02,$04,$04,$02,$02,$02,$00,$00,$02,$22,$22,$02,$12
        .byte $02,$02,$02,$03,$04,$04,$03,$02,$02,$12,$02,$02,$00,$00,$00,$02
        .byte $02,$02,$22,$22,$22,$02,$12,$02,$02,$02,$03,$03,$02,$02,$00,$00
        .byte $02,$02,$12,$02,$12,$02,$02,$02,$04,$04,$02,$02,$22,$22,$02,$02
        .byte $00,$00,$02,$02,$02,$12,$02,$02,$03,$03,$02,$02,$00,$00,$02,$02
        .byte $02,$22,$22,$02,$12,$02,$02,$02,$00,$00,$02,$02,$02,$02,$02,$02

        .org $fffa
        .word blank, reset, reset
