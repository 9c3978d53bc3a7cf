"""The function under schedule."""
