"""Logs of a run: append-only lines, segments, their schema and tables made of them."""
