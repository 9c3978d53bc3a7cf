"""Random programs with sizes have the same results as with numbers in their place."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from programs.te_programs import sized_programs
from running.examples import examples
from tcopt.dialects.graph.core.types import shape_of
from tcopt.dialects.size import function_symbols
from tcopt.interpreters.te import run_func
from tcopt.passes.fix_sizes import fix_sizes
from tcopt.passes.loop.bufferize.stage_nests import lower_function
from tcopt.passes.te.axis_groups import find_grouping
from tcopt.passes.te.regroup import regroup
from tcopt.passes.te.renumber_sizes import renumber_sizes
from tcopt.passes.te.te_inline import inline_stages
from tcopt.support.arithmetic.sizes import evaluate
from tcopt.support.ir.verify import verify
from tcopt.tools.execution.loop_executor import run_module as run_loops


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


@relaxed(100)
@given(sized_programs())
def test_axes_merged_before_sizes_are_known_keep_results(program):
    function, numbers, arrays, expected = program
    inline_stages(function)
    merged = regroup(function, find_grouping(function))
    renumbered = renumber_sizes(merged)
    if renumbered is not None:
        values = [evaluate(value, numbers) for value in renumbered.values]
        names = [symbol.name for symbol in function_symbols(merged)]
        numbers = dict(zip(names, values, strict=True))
    merged = fixed(merged, numbers)
    shapes = [shape_of(argument) for argument in merged.body.block.args]
    views = [a.reshape(shape) for a, shape in zip(arrays, shapes, strict=True)]
    results = run_func(merged, views)
    assert_equal([r.reshape(b.shape) for r, b in zip(results, expected, strict=True)], expected)


@relaxed(60)
@given(sized_programs(max_steps=5), st.booleans())
def test_loops_lowered_before_sizes_are_known_compute_the_same(program, inline):
    function, numbers, arrays, expected = program
    if inline:
        inline_stages(function)
    lowered = fixed(lower_function(function), numbers)
    buffers = [*arrays, *(np.full(value.shape, np.nan, np.float32) for value in expected)]
    run_loops(ModuleOp([lowered.clone()]), buffers)
    assert_equal(buffers[len(arrays) :], expected)


@relaxed(60)
@given(sized_programs(max_steps=5), st.booleans())
def test_loops_compute_the_same_at_any_sizes(program, inline):
    function, numbers, arrays, expected = program
    if inline:
        inline_stages(function)
    module = ModuleOp([lower_function(function)])
    verify(module)
    buffers = [*arrays, *(np.full(value.shape, np.nan, np.float32) for value in expected)]
    sizes = [np.array([number]) for number in numbers.values()]
    run_loops(module, [*buffers, *sizes])
    assert_equal(buffers[len(arrays) :], expected)
