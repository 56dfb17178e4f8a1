"""Native environments: compiled functions and the threads that run them."""
