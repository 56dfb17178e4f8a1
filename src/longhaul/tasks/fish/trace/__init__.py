"""A run in the laboratory's own form: schedule trace, history of evaluations, names of curves."""
