"""What a step pays: every term with a weight of its own that a run may change."""
