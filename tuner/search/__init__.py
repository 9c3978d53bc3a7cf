"""Which choices to measure next: enumeration, annealing and evolution over rows of positions."""
