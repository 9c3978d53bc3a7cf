"""Random programs have the same results in numpy, as expressions, inlined, and as loops."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from programs.te_programs import programs
from running.examples import examples
from tcopt.dialects.graph.core.types import shape_of
from tcopt.interpreters.te import run_func
from tcopt.passes.loop.bufferize.stage_nests import lower_function
from tcopt.passes.te.axis_groups import find_grouping
from tcopt.passes.te.regroup import regroup
from tcopt.passes.te.te_inline import inline_stages
from tcopt.support.ir.verify import verify
from tcopt.tools.execution.loop_executor import run_module as run_loops


def relaxed(count):
    return settings(max_examples=examples(count), suppress_health_check=list(HealthCheck))


def assert_equal(actual, expected):
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)


@relaxed(150)
@given(programs())
def test_expressions_mean_what_numpy_says(program):
    function, arrays, expected = program
    verify(function)
    assert_equal(run_func(function, arrays), expected)


@relaxed(200)
@given(programs(), st.integers(0, 20), st.booleans())
def test_inlining_keeps_results(program, max_ops, inline_padding):
    function, arrays, _ = program
    before = run_func(function, arrays)
    inline_stages(function, max_ops, inline_padding)
    verify(function)
    assert_equal(run_func(function, arrays), before)


@relaxed(150)
@given(programs(), st.booleans())
def test_merged_axes_give_the_same_elements(program, inline):
    function, arrays, _ = program
    if inline:
        inline_stages(function)
    before = run_func(function, arrays)
    if any(0 in stage.all_extents for stage in function.stages):
        return
    merged = regroup(function, find_grouping(function))
    verify(merged)
    shapes = [shape_of(argument) for argument in merged.body.block.args]
    views = [a.reshape(shape) for a, shape in zip(arrays, shapes, strict=True)]
    results = run_func(merged, views)
    assert_equal([r.reshape(b.shape) for r, b in zip(results, before, strict=True)], before)


@relaxed(40)
@given(programs(max_steps=5), st.booleans())
def test_loops_compute_the_same(program, inline):
    function, arrays, expected = program
    if inline:
        inline_stages(function)
    module = ModuleOp([lower_function(function)])
    verify(module)
    buffers = [*arrays, *(np.full(value.shape, np.nan, np.float32) for value in expected)]
    run_loops(module, buffers)
    assert_equal(buffers[len(arrays) :], expected)
