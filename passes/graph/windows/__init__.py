"""Convolutions and pools rewritten as others that run faster."""
