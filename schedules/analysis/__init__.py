"""What blocks compute, and which elements they touch."""
