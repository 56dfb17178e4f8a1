"""Schedules of the fish: curriculum, penalty gate, boosts and windows."""
