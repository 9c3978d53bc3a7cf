"""Memory planning: offsets of buffers in the workspace."""
