"""Loading trained policies, and measuring them."""
