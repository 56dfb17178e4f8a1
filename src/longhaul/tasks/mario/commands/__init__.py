"""Commands that only Mario has."""
