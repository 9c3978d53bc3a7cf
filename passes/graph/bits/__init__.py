"""Products of numbers of few bits, bit by bit."""
