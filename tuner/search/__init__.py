"""Search of the next choices to measure: enumeration, annealing and evolution over positions."""
