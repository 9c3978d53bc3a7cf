"""Execution of modules at any level, and checks of passes by execution."""
