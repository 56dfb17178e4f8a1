"""Looking at runs and tasks from outside: listings, logs, repairs and the page."""
