"""Tensorised loops keep their results: interpreted, and as machine code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, bf16, f32
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue

from programs.dot_products import CASES, Case, factors, lowered, product, scheduled
from tcopt.backends.llvm.jit import compile_module
from tcopt.backends.llvm.machine.host import named_target
from tcopt.backends.llvm.objects import emit_assembly
from tcopt.compiler import Phase, lower
from tcopt.dialects.intrinsics import (
    INTRINSICS,
    Intrinsic,
    all_intrinsics,
    find_dot,
    intrinsic,
    register,
)
from tcopt.dialects.loop import IntrinOp
from tcopt.dialects.simd import DotOp
from tcopt.dialects.te import api as te
from tcopt.passes.loop.bufferize.stage_nests import lower_function
from tcopt.schedules import Schedule
from tcopt.schedules.api.apply import apply_sequence
from tcopt.support.errors import InputError, ScheduleError, UnsupportedError
from tcopt.tools.execution.kernel_executor import run_function
from tcopt.tools.execution.loop_executor import run_func, run_module

ROWS, COLUMNS, DEPTH, LANES = 3, 20, 16, 8
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def check(case: Case, got: np.ndarray, expected: np.ndarray) -> None:
    if case.total == "i32":
        np.testing.assert_array_equal(got, expected)
    else:
        # Products of bf16 are exact in f32; sums of 16 of them in another order.
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@each_case
def test_results_stay(case: Case, rng: np.random.Generator) -> None:
    """The behaviour, its vector form in the loop dialect, and the expanded products."""
    sch = scheduled(case, ROWS, COLUMNS, DEPTH, LANES)
    assert any(isinstance(op, IntrinOp) for op in sch.func.walk())
    left, right, expected = factors(case, ROWS, COLUMNS, DEPTH, rng)
    result = np.zeros_like(expected)
    run_func(sch.func, [_signless(left), right, result])
    check(case, result, expected)
    module = lowered(sch)
    assert any(op.name == "simd.dot" for op in module.walk())
    native = np.zeros_like(expected)
    compile_module(module).function("matmul")(_signless(left), right, native)
    check(case, native, expected)


@each_case
def test_vectors_are_interpreted(case: Case, rng: np.random.Generator) -> None:
    module = ModuleOp([scheduled(case, ROWS, COLUMNS, DEPTH, LANES).func.clone()])
    lower(module, [Phase("kernel", "lower-intrinsics,compact-buffers,lower-blocks,vectorize")])
    assert any(op.name == "simd.dot" for op in module.walk())
    left, right, expected = factors(case, ROWS, COLUMNS, DEPTH, rng)
    (result,) = run_module(module, [_signless(left), right])
    check(case, result, expected)


def test_a_sequence_says_the_same() -> None:
    case = CASES[0]
    sch = scheduled(case, ROWS, COLUMNS, DEPTH, LANES)
    assert f'sched.tensorize %ki as "{case.name}"' in str(sch.sequence)
    other = product(case, ROWS, COLUMNS, DEPTH)
    apply_sequence(sch.sequence, other)
    assert str(other) == str(sch.func)


@pytest.mark.parametrize(
    ("target", "instruction", "case"),
    [
        ("znver4", r"vdpbf16ps\s+.*\{1to16\}, %zmm", CASES[0]),
        ("sapphirerapids", r"vdpbf16ps\s+.*\{1to16\}, %zmm", CASES[0]),
        ("sapphirerapids", r"vpdpbusd\s+.*%zmm", CASES[2]),
        ("sapphirerapids", r"vpdpwssd\s+.*%zmm", CASES[3]),
        ("haswell", r"vpmaddwd\s+.*%ymm", CASES[3]),
        ("alderlake", r"vpdpbusd\s+.*%ymm", CASES[2]),
        ("neoverse-v1", r"bfdot\s+v", CASES[0]),
        ("neoverse-v1", r"sdot\s+v", CASES[1]),
    ],
)
def test_accumulators_stay_in_registers(target: str, instruction: str, case: Case) -> None:
    """The innermost loop has one instruction for each accumulator, and no stores."""
    lanes, rows = {"neoverse-v1": 4, "haswell": 8, "alderlake": 8}.get(target, 16), 6
    text = emit_assembly(lowered(scheduled(case, rows, 2 * lanes, 64, lanes), target))
    blocks = re.split(r"^\.?L[\w.]+:", text, flags=re.MULTILINE)
    (hot,) = [block for block in blocks if re.search(instruction, block)]
    assert len(re.findall(instruction, hot)) == rows
    loop = hot[: [match.end() for match in re.finditer(instruction, hot)][-1]]
    assert not re.search(r"%[yz]mm\d+, \d*\(|^\s*st[rp]\s", loop, re.MULTILINE)


def test_kernels_for_other_cpus_are_checked_here(rng: np.random.Generator) -> None:
    """`--verify-each=exec` runs them with expanded instructions."""
    case = CASES[1]
    left, right, expected = factors(case, ROWS, COLUMNS, DEPTH, rng)
    result = np.zeros_like(expected)
    module = lowered(scheduled(case, ROWS, COLUMNS, DEPTH, LANES), "neoverse-v1")
    run_function(module, "matmul", [left, right, result])
    check(case, result, expected)


def test_targets_have_what_their_features_say() -> None:
    found = {
        name: find_dot(named_target(name).capabilities, (bf16, bf16), f32)
        for name in ("haswell", "skylake-avx512", "znver4", "neoverse-v1")
    }
    assert {name: dot and dot.name for name, dot in found.items()} == {
        "haswell": None,
        "skylake-avx512": None,
        "znver4": "bf16_dot",
        "neoverse-v1": "bf16_dot",
    }


def test_tiles_of_several_dimensions(bf16_matvec: str, rng: np.random.Generator) -> None:
    """A matrix-vector product as an intrinsic: its tiles are vectors of two and one dimensions."""
    sch = _matrix_times_vector()
    i, k = sch.get_loops("y")
    io, ii = sch.split(i, [None, 4])
    ko, ki = sch.split(k, [None, 2])
    sch.reorder(io, ko, ii, ki)
    sch.decompose_reduction("y", ko)
    sch.tensorize(ii, bf16_matvec)
    assert "%a[%vi, %vk] by [1, 0] [0, 1]" in str(sch.func)
    a, x = (rng.standard_normal(n).astype(ml_dtypes.bfloat16) for n in ((8, 6), (6,)))
    expected = a.astype(np.float32) @ x.astype(np.float32)
    result = np.zeros(8, np.float32)
    run_func(sch.func, [a, x, result])
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    run_function(lowered(sch), "matvec", [a, x, result])
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_operands_stand_still_where_the_intrinsic_s_do(bf16_matvec: str) -> None:
    sch = _matrix_times_vector(own_rows=True)
    i, k = sch.get_loops("y")
    io, ii = sch.split(i, [None, 4])
    ko, ki = sch.split(k, [None, 2])
    sch.reorder(io, ko, ii, ki)
    sch.decompose_reduction("y", ko)
    moving = r"%x moves along %ii where the intrinsic's 'x' is the same for all of 'i'"
    with pytest.raises(ScheduleError, match=moving):
        sch.tensorize(ii, bf16_matvec)


def _matrix_times_vector(own_rows: bool = False) -> Schedule:
    """y[i] = sum(a[i, k] * x[k]), or x[i, k] with rows of its own."""
    a = te.placeholder((8, 6), "bf16", name="a")
    x = te.placeholder((8, 6) if own_rows else (6,), "bf16", name="x")
    k = te.reduce_axis(6, "k")

    def term(i: te.Axis) -> te.Expr:
        right = x[i, k] if own_rows else x[k]
        return te.sum(te.cast(a[i, k], "f32") * te.cast(right, "f32"), axis=k)

    return Schedule(lower_function(te.func("matvec", [a, x], te.compute((8,), term, name="y"))))


def _behaviour(a: te.Tensor, x: te.Tensor) -> te.Tensor:
    p = te.reduce_axis(2, "p")

    def term(i: te.Axis) -> te.Expr:
        return te.sum(te.cast(a[i, p], "f32") * te.cast(x[p], "f32"), axis=p)

    return te.compute((4,), term)


def _lower(acc: SSAValue, a: SSAValue, x: SSAValue) -> list[Operation]:
    spread = BroadcastOp(x, a.type)
    return [spread, DotOp(acc, a, spread)]


@pytest.fixture
def bf16_matvec() -> Iterator[str]:
    """Register an intrinsic's name for the duration of a test."""
    name = "bf16_matvec"
    shapes = {"a": ((4, 2), "bf16"), "x": ((2,), "bf16")}
    register(Intrinsic(name, shapes, behaviour=_behaviour, lowering=_lower, requires=[]))
    yield name
    del INTRINSICS[name]


def test_names_are_unique() -> None:
    with pytest.raises(UnsupportedError, match="no intrinsic 'dot4'"):
        intrinsic("dot4")
    mine = replace(all_intrinsics()["s8_dot"], name="my_dot")
    register(mine)
    try:
        with pytest.raises(InputError, match="two definitions of intrinsic 'my_dot'"):
            register(mine)
    finally:
        del INTRINSICS["my_dot"]


def _signless(array: np.ndarray) -> np.ndarray:
    """Buffers are signless; the arithmetic determines the signedness."""
    return array.view(np.int8) if array.dtype == np.uint8 else array
