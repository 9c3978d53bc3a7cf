"""Convolutions by Winograd's algorithm: the pass, what it needs, and what it costs."""
