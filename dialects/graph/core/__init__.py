"""Types, attributes, weights and base classes of graph ops, and ops without operands."""
