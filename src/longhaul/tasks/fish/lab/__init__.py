"""The laboratory: first-step deaths, and records in the predecessor's names."""
