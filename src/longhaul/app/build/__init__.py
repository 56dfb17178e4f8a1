"""Building the parts of a run from its config."""
