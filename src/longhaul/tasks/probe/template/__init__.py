"""What `longhaul new-task` copies beside the recall environment: a task, its preset, its tests."""
