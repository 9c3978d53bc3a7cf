"""Schedule rules: classes that write the schedule of a function for a target."""
