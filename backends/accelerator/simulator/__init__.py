"""A simulator of accelerators, in parts that know nothing of each other or of the compiler.

`timing` says how long tasks take and why, `proof` shows that no order in which units may run
changes what they compute, `trace` shows a run. All look at tasks (`dialects/accelerator/tasks.py`)
and know no accelerator.
"""
