"""Blocks that policies are built from."""
