"""Tensorized loops compute what they did: interpreted, and as machine code."""

from __future__ import annotations

import re

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, bf16, f32

from dot_products import CASES, Case, factors, lowered, product, scheduled
from tcopt.backends.llvm.host import named_target
from tcopt.backends.llvm.jit import compile_module
from tcopt.backends.llvm.objects import emit_assembly
from tcopt.compiler import Phase, lower
from tcopt.dialects.intrinsics import all_intrinsics, find_dot, intrinsic, register
from tcopt.dialects.loop import IntrinOp
from tcopt.interpreters.loop import run_func, run_module
from tcopt.schedules.apply import apply_sequence
from tcopt.support.errors import InputError, UnsupportedError
from tcopt.tools.kernel_executor import run_function

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
    """The behaviour, its vectors in the loop dialect, and the products as they are written out."""
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
        ("neoverse-v1", r"bfdot\s+v", CASES[0]),
        ("neoverse-v1", r"sdot\s+v", CASES[1]),
    ],
)
def test_accumulators_stay_in_registers(target: str, instruction: str, case: Case) -> None:
    """The hot loop is the instruction once an accumulator; nothing is stored in it."""
    lanes, rows = (4 if target.startswith("neoverse") else 16), 6
    text = emit_assembly(lowered(scheduled(case, rows, 2 * lanes, 64, lanes), target))
    blocks = re.split(r"^\.?L[\w.]+:", text, flags=re.MULTILINE)
    (hot,) = [block for block in blocks if re.search(instruction, block)]
    assert len(re.findall(instruction, hot)) == rows
    loop = hot[: [match.end() for match in re.finditer(instruction, hot)][-1]]
    assert not re.search(r"%[yz]mm\d+, \d*\(|^\s*st[rp]\s", loop, re.MULTILINE)


def test_kernels_for_other_cpus_are_checked_here(rng: np.random.Generator) -> None:
    """`--verify-each=exec` runs them with their instructions written out."""
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


def test_names_are_unique() -> None:
    with pytest.raises(UnsupportedError, match="no intrinsic 'dot4'"):
        intrinsic("dot4")
    with pytest.raises(InputError, match="two intrinsics 's8_dot'"):
        register(all_intrinsics()["s8_dot"])


def _signless(array: np.ndarray) -> np.ndarray:
    """Buffers hold bits; the arithmetic says which sign they have."""
    return array.view(np.int8) if array.dtype == np.uint8 else array
