"""The built-in tasks, one folder each."""
