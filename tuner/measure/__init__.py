"""Measurement of candidates: compilation, checks and timing in separate, disposable processes."""
