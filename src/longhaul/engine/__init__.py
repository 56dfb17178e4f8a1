"""The training loop and the parts it turns."""
