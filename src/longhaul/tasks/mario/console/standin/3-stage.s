; ---- a stage begins
load_stage:
        lda #0
        sta $2000
        sta $2001
        sta column
        sta column_ready
        sta page
        sta edge_page
        sta edge_x
        sta speed_x
        sta speed_y
        sta rise
        sta part_x
        sta part_y
        sta float_state
        sta clock_ran_out
        sta tick
        sta clock+1
        ldx #4
no_walkers:
        sta enemy_active,x
        sta enemy_type,x
        dex
        bpl no_walkers
        lda world               ; each stage begins at its own place of the table: 37 columns on
        asl a
        asl a
        ora stage
        sta area_pointer
        tax
        lda #0
next_stage:
        dex
        bmi found_stage
        clc
        adc #37
        bcc next_stage
        bcs next_stage
found_stage:
        sta course
        jsr hide_sprites
        jsr clear_screens
        jsr load_palette
        lda #40
        sta low_x
        sta screen_x
        lda #176
        sta player_y
        lda #1
        sta screens_down
        sta size_flag
        sta facing
        sta moving
        sta grounded
        sta area_type
        sta clock+2
        lda #4
        sta clock
first_columns:
        jsr make_column
        jsr put_column
        lda column
        cmp #18
        bne first_columns
        ldx #3                  ; sprite 0 lies on the bar below the status line
bar_sprite:
        lda bar_place,x
        sta sprites,x
        dex
        bpl bar_sprite
        bit $2002
        lda #$20
        sta $2006
        lda #$6b
        sta $2006
        lda #bar_tile
        sta $2007
        sta $2007
        lda #plays
        sta player_state
        lda #runs
        sta sub_mode
        bit $2002
        lda #blank_control
        sta $2000
        rts
bar_place:
        .byte 30, bar_tile, %00100000, 92

; ---- the columns of a stage
; A column's byte: rows of ground (0 is a pit) in bits 0-3; bit 4 a walker, bit 5 a brick above.
make_column:
        ldx column
        lda #2
        cpx #first_wild
        bcc plain
        cpx #last_wild
        bcs plain
        txa
        clc
        adc course
        and #$7f
        tax
        lda columns,x
plain:
        sta work
        and #$0f
        sta ground
        lda column              ; into the map: two pages of 13 rows of 16
        and #$0f
        sta pointer
        lda #>tiles
        sta pointer+1
        lda column
        and #$10
        beq first_page
        lda pointer
        clc
        adc #208
        sta pointer
        bcc first_page
        inc pointer+1
first_page:
        ldy #0
        ldx #0
map_row:
        jsr block_in_row
        sta (pointer),y
        jsr put_made
        lda pointer
        clc
        adc #16
        sta pointer
        bcc same_page
        inc pointer+1
same_page:
        inx
        cpx #13
        bne map_row
        lda column              ; on the screen: $2080 or $2480 and two tiles a column
        and #$0f
        asl a
        ora #$80
        sta made_place
        lda column
        and #$10
        lsr a
        lsr a
        ora #$20
        sta made_place+1
        lda work
        and #$10
        beq no_walker
        jsr add_walker
no_walker:
        inc column
        lda column
        and #$0f
        sta decoded_column
        lda column
        lsr a
        lsr a
        lsr a
        lsr a
        sta decoded_page
        lda #1
        sta column_ready
        rts

; Return in A what is in row X of the column.
block_in_row:
        lda column
        cmp #pole_column
        bne no_pole
        cpx #2
        bcc nothing
        cpx #11
        bcs no_pole
        lda #pole_block
        rts
no_pole:
        txa
        clc
        adc ground
        cmp #13
        bcs solid
        lda work
        and #$20
        beq nothing
        cpx #7
        bne nothing
        lda #brick_block
        rts
solid:
        lda #ground_block
        rts
nothing:
        lda #0
        rts

; Put the four tiles of a block A in row X among those that wait for the screen.
put_made:
        sta work+2
        lda #empty_tile
        sta work+3              ; the right half
        lda work+2
        beq sky
        cmp #pole_block
        beq pole
        cmp #brick_block
        beq bricks
        lda #ground_tile
        bne both_halves
bricks:
        lda #brick_tile
        bne both_halves
sky:
        lda #empty_tile
both_halves:
        sta work+3
        bne put_four
pole:
        lda #pole_tile
put_four:
        sta work+2
        txa
        asl a
        tay
        lda work+2
        sta made,y
        sta made+1,y
        lda work+3
        sta made+26,y
        sta made+27,y
        ldy #0
        rts

put_column:
        lda #down_control
        sta $2000
        ldy #0
        sty column_ready
        jsr put_half
        inc made_place
        jsr put_half
        lda #across_control
        sta $2000
        rts
put_half:
        bit $2002
        lda made_place+1
        sta $2006
        lda made_place
        sta $2006
        ldx #26
put_tile:
        lda made,y
        sta $2007
        iny
        dex
        bne put_tile
        rts

; Keep the runner left of the middle; make a column when one is about to be seen.
scroll:
        lda low_x
        sec
        sbc edge_x
        sta screen_x
        lda low_x
        sec
        sbc #112
        sta work
        lda page
        sbc #0
        bcc scrolled
        sta work+1
        cmp edge_page
        bcc scrolled
        bne move_edge
        lda work
        cmp edge_x
        bcc scrolled
move_edge:
        lda work+1              ; the last screen stays
        cmp #7
        bcs scrolled
        sta edge_page
        lda work
        sta edge_x
        lda edge_page           ; the column at the right edge and one more
        asl a
        asl a
        asl a
        asl a
        sta work
        lda edge_x
        lsr a
        lsr a
        lsr a
        lsr a
        ora work
        clc
        adc #18
        cmp column
        bcc scrolled
        beq scrolled
        jsr make_column
scrolled:
        rts
