"""Rules that find problems of a run in its recent metrics and advise what to change."""
