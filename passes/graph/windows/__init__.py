"""Rewriting of convolutions and pools as equivalent ones that run faster."""
