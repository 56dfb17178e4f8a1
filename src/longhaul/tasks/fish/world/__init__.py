"""The simulation: schools, predators, what fish see and what they earn."""
