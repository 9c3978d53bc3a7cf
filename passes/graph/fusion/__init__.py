"""Fusion of operators into groups, each of which becomes one kernel."""
