"""Schedule primitives, one a file: rewrites of loop nests with checked preconditions."""
