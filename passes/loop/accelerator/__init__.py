"""Loops for an accelerator: places in its memories, and its instructions."""
