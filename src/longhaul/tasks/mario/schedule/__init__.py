"""What changes while Mario learns: stages, help, the share of hard starts, and milestones."""
