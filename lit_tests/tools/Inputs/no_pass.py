"""A module without a pass."""
