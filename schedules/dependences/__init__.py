"""Dependences: which reorderings of a function's accesses are legal.

Every primitive checks here before it changes an order. For most functions one check is enough: if
each element of a buffer is computed once, completely, and before it is read (`single_assignment`),
the preconditions of the primitives preserve results. Accesses to all other buffers are compared in
pairs (`dialects.loop.dependences`). A step is illegal if it would exchange two accesses that may
alias, unless both are reads (`order`).
"""
