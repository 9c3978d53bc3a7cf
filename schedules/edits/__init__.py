"""Edits of loop nests that primitives are made of."""
