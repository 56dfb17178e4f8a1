"""The school for other libraries, and for the predecessor's policies."""
