"""Pass pipelines: specifications, text, phases, and execution."""
