"""Train game-playing agents in runs that are fast, unkillable and exactly resumable."""
