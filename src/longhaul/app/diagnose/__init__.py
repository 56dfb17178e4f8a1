"""Checking environments, runs and the machine."""
