"""A collector whose workers live on other machines, by Ray."""
