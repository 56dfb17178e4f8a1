"""Environments in worker processes that may die, hang or lie without ending the run."""
