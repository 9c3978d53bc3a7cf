"""Partitioning of operators between the host and an accelerator."""
