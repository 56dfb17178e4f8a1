"""The game as many environments: its memory, its stages, what agents see and how episodes end."""
