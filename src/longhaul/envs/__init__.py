"""Running many environments at once behind one VectorEnv."""
