"""Removal of code without effects."""
