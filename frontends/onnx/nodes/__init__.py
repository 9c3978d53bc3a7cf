"""Import of nodes, including their order, subgraphs and functions."""
