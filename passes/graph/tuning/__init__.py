"""Choices about graph ops that come from a table."""
