"""Training on the starts the school fails most."""
