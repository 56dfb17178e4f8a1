"""Rules that tell from recent metrics what is wrong with a run, and what to change."""
