"""What only NetHack is asked for: its script, its arms, and its experts one by one."""
