"""Motion of slices and concatenations past other operators."""
