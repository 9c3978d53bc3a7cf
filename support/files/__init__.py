"""Reads and writes files: atomic output, digests, private folders, JSON descriptions."""
