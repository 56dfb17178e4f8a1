"""Turning the game's screen into atoms and numbers, in native code."""
