"""Searches: their spaces, their memory, their trials and what they leave behind."""
