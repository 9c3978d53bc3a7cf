"""Parsing and printing of IR text."""
