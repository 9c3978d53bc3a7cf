"""Convolutions by Winograd's algorithm: rewriting, legality and cost model."""
