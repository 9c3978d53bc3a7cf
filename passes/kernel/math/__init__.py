"""Transcendental functions as polynomials."""
