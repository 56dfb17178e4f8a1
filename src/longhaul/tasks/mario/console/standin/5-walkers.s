; ---- walkers
add_walker:
        ldx #4
free_slot:
        lda enemy_active,x
        beq found_slot
        dex
        bpl free_slot
        rts
found_slot:
        lda #1
        sta enemy_active,x
        sta enemy_down,x
        lda #walker_type
        sta enemy_type,x
        lda column
        lsr a
        lsr a
        lsr a
        lsr a
        sta enemy_page,x
        lda column
        asl a
        asl a
        asl a
        asl a
        sta enemy_x,x
        lda #184
        sta enemy_y,x
        lda #$f8
        sta enemy_speed,x
        rts

move_walkers:
        ldx #4
move_walker:
        lda enemy_active,x
        beq next_walker
        lda frame_counter       ; a step every other frame
        lsr a
        bcs next_walker
        lda enemy_speed,x
        bmi walks_left
        inc enemy_x,x
        bne moved
        inc enemy_page,x
        jmp moved
walks_left:
        lda enemy_x,x
        bne same_enemy_page
        dec enemy_page,x
same_enemy_page:
        dec enemy_x,x
moved:
        lda enemy_x,x           ; gone when it has left the screen to the left
        sec
        sbc edge_x
        lda enemy_page,x
        sbc edge_page
        bpl look_ahead
        lda #0
        sta enemy_active,x
        jmp next_walker
look_ahead:
        cmp #2
        bcs next_walker         ; beyond the map that is known
        lda #212                ; turn where the ground ends and where it rises
        jsr ahead_of_walker
        beq turn
        lda #196
        jsr ahead_of_walker
        beq next_walker
turn:
        lda enemy_speed,x
        eor #$ff
        clc
        adc #1
        sta enemy_speed,x
next_walker:
        dex
        bpl move_walker
        rts

; Return the block in line A, ahead of walker X.
ahead_of_walker:
        sta probe_y
        lda #4
        ldy enemy_speed,x
        bmi ahead_left
        lda #12
ahead_left:
        clc
        adc enemy_x,x
        sta probe_x
        lda enemy_page,x
        adc #0
        sta probe_x+1
        jmp block_at_probe

touch_walkers:
        lda player_state
        cmp #plays
        bne no_touch
        ldx #4
touch_walker:
        lda enemy_active,x
        beq no_contact
        lda low_x               ; within twelve pixels across?
        sec
        sbc enemy_x,x
        sta work
        lda page
        sbc enemy_page,x
        beq to_its_right
        cmp #$ff
        bne no_contact
        lda work
        cmp #256-11
        bcc no_contact
        bcs heights
to_its_right:
        lda work
        cmp #12
        bcs no_contact
heights:
        lda enemy_y,x           ; its top is 8 below its figure, the runner's feet 32 below his
        clc
        adc #8
        sec
        sbc player_y
        cmp #34
        bcs no_contact          ; above it
        cmp #18
        bcc hurt
        lda speed_y
        bmi no_contact
        beq hurt
        lda #0                  ; onto its head
        sta enemy_active,x
        lda #hop
        sta rise
        jsr pay
        jmp no_contact
hurt:
        jmp die
no_contact:
        dex
        bpl touch_walker
no_touch:
        rts

; A hundred points.
pay:
        ldy #3
carry:
        lda score,y
        clc
        adc #1
        cmp #10
        bcc paid
        lda #0
        sta score,y
        dey
        bpl carry
        rts
paid:
        sta score,y
        rts
