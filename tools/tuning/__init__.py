"""Tuning a model from end to end: the search, its display, and the comparison that decides."""
