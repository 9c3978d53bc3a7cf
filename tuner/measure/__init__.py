"""Candidates compiled, checked and timed, in processes that they cannot harm."""
