"""Several runs with one purpose: comparisons, arms and searches."""
