"""Tiny tasks with known answers, to see in seconds whether a learner works."""
