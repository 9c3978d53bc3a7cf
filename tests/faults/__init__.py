"""Faults planted into passes, which the check of every pass must find."""
