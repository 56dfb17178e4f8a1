"""The vocabulary every other folder shares; imports nothing above it."""
