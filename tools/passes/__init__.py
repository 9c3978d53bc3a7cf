"""The pass driver and its instruments."""
