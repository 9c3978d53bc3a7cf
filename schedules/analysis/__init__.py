"""Analyses of blocks: what they compute, and which elements they access."""
