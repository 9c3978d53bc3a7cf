"""Tuned schedules: lock files, and the keys by which their entries are found."""
