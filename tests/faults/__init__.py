"""Faults planted into passes, for the check that runs every pass to find."""
