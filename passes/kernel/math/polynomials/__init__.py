"""Polynomial expansions of math functions, one family per module, found by scanning this package.

Expansions for f64 are in `wide.py`. Coefficients were fitted in double precision by iterated
weighted least squares, which is close to the minimax relative error, and rounded to f32. Errors are
given in units in the last place (ulp) of the result and hold for the whole domain unless said
otherwise; the tests measure them. On CPUs without fused multiply-add they are up to twice as large.
"""
