"""Emit rules, one module for each family of ops; rules are found by scanning this package."""
