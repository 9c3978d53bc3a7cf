"""Types of numbers: rounding to 16 bits, and operators on integers in place of floats."""
