"""Programs of accelerators, whatever they look like."""
