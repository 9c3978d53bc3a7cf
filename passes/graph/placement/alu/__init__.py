"""Operators as sums, comparisons and shifts of integers in the registers of an ALU."""
