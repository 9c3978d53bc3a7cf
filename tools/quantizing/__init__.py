"""Models quantised by a plan: what takes part, measured in turns, shown, written."""
