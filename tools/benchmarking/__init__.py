"""Measurement of models against other runtimes: peers, interleaving, machine limits, memory."""
