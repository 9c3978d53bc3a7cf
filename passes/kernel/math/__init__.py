"""Expansion of transcendental functions into polynomials."""
