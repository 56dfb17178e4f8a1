"""Inspecting runs and tasks: listings, logs, repairs, replays and the live page."""
