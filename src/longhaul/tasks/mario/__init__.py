"""Super Mario Bros: the game on our consoles, the task of clearing its stages, and playing it."""
