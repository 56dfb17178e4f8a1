"""Searching for better values of a task's config, trial by trial."""
