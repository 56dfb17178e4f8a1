"""Small environments with known best returns, for checking learners and runtimes."""
