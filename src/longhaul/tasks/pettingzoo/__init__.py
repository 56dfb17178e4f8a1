"""PettingZoo's parallel environments, all agents with one policy."""
