"""Element types, strings, structured values, and comparisons of results."""
