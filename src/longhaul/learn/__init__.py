"""Advantage and loss functions, and the learners made of them."""
