"""Contractions on packed operands: blocks, panels, Winograd tiles, words of bits and tables."""
