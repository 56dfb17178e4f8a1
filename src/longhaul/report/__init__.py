"""Plots, films and pages made from run directories, without the engine and without torch."""
