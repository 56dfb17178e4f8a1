"""Starts on which schools went badly: kept in files, mixed, and dealt again in training."""
