"""What is made of a run: films, reports, snapshots, studies and exports."""
