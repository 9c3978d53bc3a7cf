"""State of the function under schedule."""
