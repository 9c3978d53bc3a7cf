"""Loops as vectors."""
