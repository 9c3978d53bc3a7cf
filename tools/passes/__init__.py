"""The driver of passes and its observers."""
