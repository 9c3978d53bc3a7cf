"""Networks with seeded random weights, in the form an exporter would write, one per file."""
