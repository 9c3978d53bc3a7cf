"""Each pass of the lowering preserves the results of the scheduled program."""

from __future__ import annotations

import pytest
from xdsl.dialects.func import FuncOp

from programs.loop_programs import (
    LOOP_PASSES,
    PROGRAMS,
    apply,
    assert_same,
    function_of,
    parse,
    random_arguments,
    results,
)
from tcopt.backends.llvm.jit import compile_module


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("count", range(1, len(LOOP_PASSES) + 1))
@pytest.mark.parametrize("name", PROGRAMS)
def test_passes_keep_the_result(name: str, count: int) -> None:
    module = parse(PROGRAMS[name])
    expected = results(module)
    apply(module, *LOOP_PASSES[:count])
    assert_same(expected, results(module))


@pytest.mark.parametrize("name", PROGRAMS)
def test_parallel_iterations_may_run_in_any_order(name: str) -> None:
    module = parse(PROGRAMS[name])
    apply(module, *LOOP_PASSES)
    assert_same(results(module), results(module, order=7))


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize(
    "passes",
    [
        ("lower-blocks",),
        ("compact-buffers", "lower-blocks"),
        LOOP_PASSES,
        ("lower-blocks", "vectorize"),
        ("compact-buffers", "lower-blocks", "unroll-loops"),
    ],
    ids=["plain", "compact", "all", "vectors", "unrolled"],
)
@pytest.mark.parametrize("name", PROGRAMS)
def test_native_code_computes_the_same(name: str, passes: tuple[str, ...]) -> None:
    module = parse(PROGRAMS[name])
    expected = results(module)
    function = function_of(module)
    symbol, arguments = function.sym_name.data, random_arguments(function)
    apply(module, *passes, "lower-loop-to-kernel")
    kernel = next(op for op in module.ops if isinstance(op, FuncOp))
    del kernel.properties["sym_visibility"]
    compile_module(module).function(symbol)(*arguments)
    assert_same(expected, arguments)
