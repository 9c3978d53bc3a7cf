"""Lowering of loops to an accelerator: memory placement and instructions."""
