"""End-to-end tuning of a model: the search, its display, and the comparison that accepts it."""
