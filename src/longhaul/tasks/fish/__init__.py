"""A school of fish that must survive a passing predator."""
