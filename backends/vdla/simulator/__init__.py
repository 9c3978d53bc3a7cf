"""Functional simulation of VDLA streams, and checks that need no execution.

`backends/accelerator/simulator` simulates timing and proves synchronisation.
"""
