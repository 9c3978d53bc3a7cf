"""Tuned schedules: what a lock file says of a model's kernels, and how they are told apart."""
