"""Common parts of the command-line tools: options, inputs, progress and tables."""
