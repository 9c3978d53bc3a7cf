"""Models for testing the compiler."""
