"""Archive search for the decisions that solve a task, kept on disk like a run."""
