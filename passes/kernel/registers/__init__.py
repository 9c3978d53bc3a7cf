"""Promotion of small buffers to registers."""
