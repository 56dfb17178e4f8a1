"""Threads that step simulators natively: one after another is dealt out, Python is not asked."""
