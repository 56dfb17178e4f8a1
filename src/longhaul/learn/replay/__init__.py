"""Prioritized replay of sequences, mixed into on-policy updates."""
