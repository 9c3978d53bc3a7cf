"""Nodes, in their order, with bodies and functions."""
