"""Deaths in the first step: who, where, before which predator, and what they have in common."""
