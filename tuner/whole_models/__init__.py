"""Whole models during tuning: their variants, comparisons, and choices about the graph."""
