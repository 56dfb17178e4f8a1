"""Monitoring of a running process: heartbeat, stalls, resources and workers."""
