"""Random programs with sizes have the same results as with numbers in their place."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from programs.te_programs import sized_programs
from running.examples import examples
from tcopt.interpreters.te import run_func
from tcopt.passes.fix_sizes import fix_sizes
from tcopt.passes.te.te_inline import inline_stages
from tcopt.support.ir.verify import verify


def relaxed(count):
    return settings(max_examples=examples(count), suppress_health_check=list(HealthCheck))


def assert_equal(actual, expected):
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)


def fixed(function, numbers):
    """Return a function with numbers in place of its sizes."""
    module = ModuleOp([function])
    verify(module)
    fix_sizes(module, numbers)
    verify(module)
    (only,) = module.ops
    return only


@relaxed(150)
@given(sized_programs())
def test_fixed_programs_mean_what_numpy_says(program):
    function, numbers, arrays, expected = program
    assert_equal(run_func(fixed(function, numbers), arrays), expected)


@relaxed(150)
@given(sized_programs(), st.integers(0, 20), st.booleans())
def test_inlining_before_sizes_are_known_keeps_results(program, max_ops, inline_padding):
    function, numbers, arrays, expected = program
    inline_stages(function, max_ops, inline_padding)
    assert_equal(run_func(fixed(function, numbers), arrays), expected)
