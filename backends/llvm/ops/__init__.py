"""Emit rules, one module for each family of ops; all are found by scanning this package."""
