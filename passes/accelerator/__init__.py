"""Synchronisation of the units of an accelerator."""
