"""What streams of the accelerator compute, and all checks of one that need no execution.

How long they take and whether their units wait as they must, `backends/accelerator/simulator` says.
"""
