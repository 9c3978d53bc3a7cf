"""Which processor computes which operators."""
