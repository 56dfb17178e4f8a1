"""Gymnasium environments as ours, and ours under Gymnasium ids."""
