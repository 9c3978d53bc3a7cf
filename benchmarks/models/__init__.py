"""Networks built with seeded random weights, as an exporter would write them, one a file."""
