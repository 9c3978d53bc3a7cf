"""Edits of loop nests, from which primitives are built."""
