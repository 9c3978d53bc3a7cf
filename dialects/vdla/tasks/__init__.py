"""Accesses and durations of instructions, for ordering, timing and proofs."""
