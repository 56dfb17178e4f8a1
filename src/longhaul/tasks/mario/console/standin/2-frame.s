; ---- power on
        .org $8000
reset:
        sei
        cld
        ldx #$ff
        txs
        inx
        stx $2000
        stx $2001
first_blank:
        bit $2002
        bpl first_blank
        txa
clear:
        sta $00,x
        sta $0200,x
        sta $0300,x
        sta $0400,x
        sta $0500,x
        sta $0600,x
        sta $0700,x
        inx
        bne clear
second_blank:
        bit $2002
        bpl second_blank
        jsr load_palette
        jsr show_title
        lda #blank_control
        sta $2000
forever:
        jmp forever

; ---- once a frame
blank:
        pha
        txa
        pha
        tya
        pha
        lda busy
        bne leave               ; the last frame is not finished: let it be
        inc busy
        inc frame_counter
        lda #0
        sta $2003
        lda #>sprites
        sta $4014
        lda column_ready
        beq no_column
        jsr put_column
no_column:
        jsr put_status
        bit $2002
        lda #0
        sta $2006
        sta $2006
        sta $2005
        sta $2005
        lda #blank_control
        sta $2000
        lda #show_all
        sta $2001
        jsr read_pad
        jsr split
        jsr play
        lda #0
        sta busy
leave:
        pla
        tay
        pla
        tax
        pla
        rti

; Wait for sprite 0, then show the stage below the status line.
split:
        lda sub_mode
        cmp #runs
        bne no_split
old_flag:
        bit $2002
        bvs old_flag
new_flag:
        bit $2002
        bvc new_flag
        lda edge_x
        sta $2005
        lda #0
        sta $2005
        lda edge_page
        and #1
        ora #blank_control
        sta $2000
no_split:
        rts

read_pad:
        lda pad
        sta pad_before
        lda #1
        sta $4016
        lsr a
        sta $4016
        ldx #8
next_button:
        lda $4016
        lsr a
        ror pad
        dex
        bne next_button
        lda pad                 ; A and B once more, where agents look for them
        lsr a
        ror held_buttons
        lsr a
        lda held_buttons
        ror a
        and #$c0
        sta held_buttons
        rts

play:
        lda mode
        beq title
        cmp #3
        beq game_over
        lda sub_mode
        beq begin_stage
        jmp run
begin_stage:
        jmp load_stage

title:
        lda pad
        and #$08
        beq stay
        lda #1
        sta mode
        lda #0
        sta sub_mode
stay:
        rts

game_over:
        dec timer
        bne stay
        lda #0
        sta world
        sta stage
        ldx #5
no_score:
        sta score,x
        dex
        bpl no_score
        jsr show_title
        lda #blank_control
        sta $2000
        rts

; ---- a frame of play
run:
        lda player_state
        cmp #dies
        beq dying
        cmp #dead
        beq dying
        cmp #holds_pole
        beq on_pole
        jsr count_down
        jsr steer
        jsr move_across
        jsr move_down
        jsr scroll
        jsr move_walkers
        jsr touch_walkers
        jmp draw

dying:
        dec timer
        bne still_there
        dec lives
        bmi last_life
        lda #0
        sta sub_mode
        rts
last_life:
        lda #3
        sta mode
        lda #60
        sta timer
        rts
still_there:
        jmp draw

on_pole:
        dec timer
        bne still_there
        ldx stage
        inx
        cpx #4
        bne same_world
        ldx #0
        inc world
same_world:
        stx stage
        lda world
        and #7
        sta world
        lda #0
        sta sub_mode
        rts

die:
        lda #dies
        sta player_state
        lda #40
        sta timer
        rts

count_down:
        inc tick
        lda tick
        cmp #24
        bne clock_runs
        lda #0
        sta tick
        ldx #2
borrow:
        dec clock,x
        bpl clock_runs
        lda #9
        sta clock,x
        dex
        bpl borrow
        lda #0                  ; time is up
        sta clock
        sta clock+1
        sta clock+2
        lda #1
        sta clock_ran_out
        jmp die
clock_runs:
        rts
