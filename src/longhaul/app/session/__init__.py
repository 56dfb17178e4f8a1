"""A session, one process that trains a run: start, train, monitor, finish."""
