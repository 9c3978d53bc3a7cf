"""Where buffers lie in memory."""
