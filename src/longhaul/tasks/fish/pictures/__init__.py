"""Pictures of a school."""
