"""Schedule rules: who writes the schedule of a function for a target."""
