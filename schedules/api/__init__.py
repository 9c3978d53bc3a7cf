"""The `Schedule` of a function: its primitives as methods, written down and replayed."""
