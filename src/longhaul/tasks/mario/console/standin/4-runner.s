; ---- the runner
steer:
        lda #walk_limit
        sta work
        lda pad
        and #$02                ; B runs
        beq walks
        lda #run_limit
        sta work
walks:
        lda pad
        bmi right
        and #$40
        bne left
        lda speed_x             ; nothing held: slow down
        beq steered
        bmi slower_left
        dec speed_x
        rts
slower_left:
        inc speed_x
steered:
        rts
right:
        lda #1
        sta facing
        sta moving
        lda speed_x
        bmi faster_right
        cmp work
        bcs too_fast_right
faster_right:
        inc speed_x
        rts
too_fast_right:
        beq steered
        dec speed_x
        rts
left:
        lda #2
        sta facing
        sta moving
        lda #0
        sec
        sbc work
        sta work
        lda speed_x
        bpl faster_left
        cmp work
        beq steered
        bcc too_fast_left
faster_left:
        dec speed_x
        rts
too_fast_left:
        inc speed_x
        rts

; Return A / 16, rounded down, of a signed number.
sixteenth:
        lsr a
        lsr a
        lsr a
        lsr a
        cmp #8
        bcc not_negative
        ora #$f0
not_negative:
        rts

; Move by speed_x sixteenths, unless a block or the left edge is in the way.
move_across:
        lda low_x
        sta before
        lda page
        sta before+1
        lda speed_x
        jsr sixteenth
        sta work
        lda speed_x
        asl a
        asl a
        asl a
        asl a
        clc
        adc part_x
        sta part_x
        lda work
        adc low_x
        sta low_x
        ldx #0
        lda work
        bpl high_byte
        dex
high_byte:
        txa
        adc page
        sta page
        lda low_x               ; left of the screen?
        sec
        sbc edge_x
        lda page
        sbc edge_page
        bmi go_back
        lda #18                 ; the head, then the feet against blocks
        jsr side_block
        bne bumped
        lda #30
        jsr side_block
        beq across_done
bumped:
        cmp #pole_block
        beq touch_pole
go_back:
        lda before
        sta low_x
        lda before+1
        sta page
        lda #0
        sta speed_x
        sta part_x
across_done:
        rts

; Return the block at the side the runner moves to, A lines below the runner's figure.
side_block:
        jsr set_probe_line
        lda #2
        ldx speed_x
        bmi probe_from_player
        lda #13
        bne probe_from_player

touch_pole:
        lda #holds_pole
        sta player_state
        lda #3
        sta float_state
        lda #flag_type
        sta enemy_type
        lda #1
        sta enemy_active
        lda #60
        sta timer
        lda #0
        sta speed_x
        sta speed_y
        rts

set_probe_line:
        clc
        adc player_y
        sta probe_y
        rts

; Return what is at A pixels right of the runner, in line probe_y; also in the zero flag.
probe_from_player:
        clc
        adc low_x
        sta probe_x
        lda page
        adc #0
        sta probe_x+1
block_at_probe:
        lda probe_y
        sec
        sbc #32
        bcc no_block
        and #$f0
        cmp #208
        bcs no_block
        sta pointer
        lda probe_x
        lsr a
        lsr a
        lsr a
        lsr a
        ora pointer
        sta pointer
        lda #>tiles
        sta pointer+1
        lda probe_x+1
        and #1
        beq probed_first
        lda pointer
        clc
        adc #208
        sta pointer
        bcc probed_first
        inc pointer+1
probed_first:
        ldy #0
        lda (pointer),y
        rts
no_block:
        lda #0
        rts

; Jump, fall, land.
move_down:
        lda player_state
        cmp #plays
        beq moves_down
        rts
moves_down:
        lda grounded
        beq in_the_air
        lda pad
        and #1
        beq in_the_air
        lda pad_before
        and #1
        bne in_the_air
        lda #jump
        sta rise
        lda #0
        sta grounded
in_the_air:
        lda #gravity            ; a held button makes a rise longer
        sta work
        lda rise
        bpl falls
        lda pad
        and #1
        beq falls
        lda #gravity_held
        sta work
falls:
        lda rise
        clc
        adc work
        bmi set_rise
        cmp #fastest_fall
        bcc set_rise
        lda #fastest_fall
set_rise:
        sta rise
        jsr sixteenth
        sta speed_y
        lda rise
        asl a
        asl a
        asl a
        asl a
        clc
        adc part_y
        sta part_y
        lda speed_y
        adc #0
        sta speed_y
        clc
        adc player_y
        sta player_y
        ldx speed_y
        bmi rising
        cmp #bottom
        bcc land
        lda #2
        sta screens_down
        lda #dead
        sta player_state
        lda #20
        sta timer
        rts
rising:
        lda #1
        sta float_state
        lda #0
        sta grounded
        lda player_y            ; never above the status line
        cmp #20
        bcs head
        lda #20
        sta player_y
        bne bump
head:
        lda #16                 ; a block above the head
        jsr set_probe_line
        lda #8
        jsr probe_from_player
        beq up_done
        cmp #pole_block
        beq up_done
bump:
        lda #0
        sta rise
up_done:
        rts
land:
        lda #1
        sta float_state
        lda #0
        sta grounded
        lda #32
        jsr set_probe_line
        lda #4
        jsr probe_from_player
        bne stands
        lda #11
        jsr probe_from_player
        beq up_done
stands:
        cmp #pole_block
        beq up_done
        lda player_y            ; onto the block: feet on a multiple of sixteen
        and #$f0
        sta player_y
        lda #0
        sta rise
        sta part_y
        sta speed_y
        sta float_state
        lda #1
        sta grounded
        rts
