"""Short runs whose logs and weights must stay the same, byte for byte."""
