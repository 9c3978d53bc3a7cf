"""Schedule primitives, one per file: rewrites of loop nests with checked preconditions."""
