"""The run directory: layout, logs, checkpoints, lock, heartbeat."""
