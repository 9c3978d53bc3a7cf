"""Elementwise operators, each written once as a function of numpy arrays and te expressions.

numpy's functions accept te expressions (`np.exp(x)`, `np.where(x > 0, x, 0)`), so one function both
evaluates an operator and builds its tensor expression. `functions.py` is a table of operators that
are such a function and nothing else; the others are classes whose `compute` is the function.
"""
