"""What loops, indices and accesses say."""
