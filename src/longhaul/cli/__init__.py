"""Arguments and exit codes, nothing else."""
