"""Options, inputs, progress and tables."""
