"""A simulator of the machine, in parts that know nothing of each other or of the compiler.

`function` computes what a stream computes, `timing` says how long it takes and why, `proof` shows
that no order in which units may run changes its results. What the last two look at is a list of
tasks (`model.py`), which `tasks.py` makes of a stream.
"""
