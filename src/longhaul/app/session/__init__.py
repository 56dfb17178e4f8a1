"""One process's share of a run: start, train, monitor, finish."""
