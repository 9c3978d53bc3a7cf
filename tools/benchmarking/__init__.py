"""Measuring models against other runtimes: peers, turns, limits of the machine, memory."""
