"""Reads config, finds the task, assembles the parts; one function per command."""
