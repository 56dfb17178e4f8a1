"""How good a school is: suites, bounds and reference policies."""
