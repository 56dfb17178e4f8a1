"""Showing runs in other people's trackers, from a thread that can neither slow nor stop them."""
