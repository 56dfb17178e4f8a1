"""Measuring speed: of training, environments, recovery and watching, beside peers."""
