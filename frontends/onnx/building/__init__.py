"""Models to try the compiler on."""
