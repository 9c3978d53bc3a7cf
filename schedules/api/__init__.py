"""The `Schedule` of a function: its methods are primitives, recorded as a sequence."""
