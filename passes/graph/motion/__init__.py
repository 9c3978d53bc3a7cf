"""Slices and concatenations moved past other operators."""
