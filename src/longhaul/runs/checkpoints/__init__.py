"""Checkpoints: whole states on disk, verified, kept and pruned."""
