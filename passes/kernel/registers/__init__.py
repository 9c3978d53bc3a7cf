"""Small buffers in registers."""
