"""Controllers that steer a run, and the Schedule that runs them; plain Python."""
