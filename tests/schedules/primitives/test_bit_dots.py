"""Low-bit products by popcount: interpreted, and as machine code."""

from __future__ import annotations

import re

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tcopt.backends.llvm.jit import compile_module
from tcopt.backends.llvm.machine.host import named_target
from tcopt.backends.llvm.objects import emit_assembly
from tcopt.compiler import lower, pipeline
from tcopt.dialects.intrinsics import intrinsic
from tcopt.dialects.intrinsics.bit_dots import WORD, bit_dot_name, bit_products
from tcopt.dialects.te import api as te
from tcopt.passes.loop.bufferize.stage_nests import lower_function
from tcopt.schedules import Schedule
from tcopt.schedules.analysis.dots import dot_of
from tcopt.schedules.analysis.patterns import match_block
from tcopt.support.errors import ScheduleError, UnsupportedError
from tcopt.tools.execution.loop_executor import run_func

ROWS, WORDS, LANES = 3, 2, 16


def product(planes: tuple[int, int], *, exclusive: bool, signs: int, bits: int = WORD) -> Schedule:
    """Rows of words times columns of words."""
    x = te.placeholder((ROWS, WORDS, planes[0]), "ui32", name="x")
    w = te.placeholder((WORDS, planes[1], LANES), "ui32", name="w")
    k, bit = te.reduce_axis(WORDS, "k"), te.reduce_axis(bits, "bit")

    def term(m: te.Axis, n: te.Axis) -> te.Expr:
        data = [x[m, k, i] for i in range(planes[0])]
        weights = [w[k, j, n] for j in range(planes[1])]
        return te.sum(
            bit_products(data, weights, bit, exclusive=exclusive, signs=signs), axis=[k, bit]
        )

    y = te.compute((ROWS, LANES), term, name="y")
    return Schedule(lower_function(te.func("f", [x, w], [y])))


def scheduled(planes: tuple[int, int], *, exclusive: bool, signs: int) -> Schedule:
    sch = product(planes, exclusive=exclusive, signs=signs)
    m, n, k, bit = sch.get_loops("y")
    sch.reorder(k, m, n, bit)
    sch.decompose_reduction("y", k)
    sch.tensorize(bit, bit_dot_name(planes, exclusive=exclusive, signs=signs))
    sch.vectorize(n)
    return sch


def numbers(words: np.ndarray, axis: int) -> np.ndarray:
    """Unpack the bits [..., 32] of words, with a leading axis of planes."""
    bits = words[..., None] >> np.arange(WORD, dtype=np.uint32) & 1
    return np.moveaxis(bits.astype(np.int64), axis, 0)


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("exclusive", [False, True], ids=["and", "xor"])
@pytest.mark.parametrize("signs", range(4))
@pytest.mark.parametrize("planes", [(1, 1), (2, 1), (2, 3)], ids=str)
def test_results(
    planes: tuple[int, int], signs: int, exclusive: bool, rng: np.random.Generator
) -> None:
    """The behaviour and its lowering, against sums over all pairs of bits."""
    sch = scheduled(planes, exclusive=exclusive, signs=signs)
    x = rng.integers(0, 1 << 32, (ROWS, WORDS, planes[0]), np.uint32)
    w = rng.integers(0, 1 << 32, (WORDS, planes[1], LANES), np.uint32)
    expected = np.zeros((ROWS, LANES), np.int64)
    for i, a in enumerate(numbers(x, 2)):
        for j, b in enumerate(numbers(w, 1)):
            left, right = a[:, :, None], np.moveaxis(b, 0, 1)[None]
            left = np.moveaxis(left, 2, 1)
            both = left ^ right if exclusive else left & right
            negative = (signs & 1 and i == planes[0] - 1) ^ (signs >> 1 and j == planes[1] - 1)
            expected += (-1 if negative else 1) * both.sum((2, 3)) << (i + j)
    arrays = [x.view(np.int32), w.view(np.int32)]
    result = run_func(sch.func, [*arrays, np.zeros((ROWS, LANES), np.int32)])[-1]
    np.testing.assert_array_equal(result, expected)
    module = ModuleOp([sch.func.clone()])
    kernel = next(phase for phase in pipeline() if phase.name == "kernel")
    lower(module, [kernel.without("plan-memory")])
    native = np.zeros((ROWS, LANES), np.int32)
    compile_module(module).function("f")(*arrays, native)
    np.testing.assert_array_equal(native, expected)


def test_a_sum_over_other_places_does_not_match() -> None:
    """Half the bits of a word is not an intrinsic, nor are other signs."""
    half = product((1, 1), exclusive=False, signs=0, bits=16)
    *_, bit = half.get_loops("y")
    half.decompose_reduction("y", half.get_loops("y")[0])
    with pytest.raises(ScheduleError, match="16 iterations where the intrinsic's 'bit' has 32"):
        half.tensorize(bit, bit_dot_name((1, 1), exclusive=False, signs=0))
    other = product((1, 1), exclusive=False, signs=0)
    *_, _k, bit = other.get_loops("y")
    other.decompose_reduction("y", other.get_loops("y")[0])
    with pytest.raises(ScheduleError, match=r"andi where the intrinsic has arith\.xori"):
        other.tensorize(bit, bit_dot_name((1, 1), exclusive=True, signs=0))


def test_the_variable_of_a_loop_is_told_from_others() -> None:
    """A shift by the number of the word is not a shift by the number of the bit."""
    x, w = (te.placeholder((WORD, LANES), "ui32", name=name) for name in "xw")
    k, bit = te.reduce_axis(WORD, "k"), te.reduce_axis(WORD, "bit")

    def term(n: te.Axis) -> te.Expr:
        one = bit_products([x[k, n]], [w[k, n]], k, exclusive=False, signs=0)
        return te.sum(one, axis=[k, bit])

    y = te.compute((LANES,), term, name="y")
    sch = Schedule(lower_function(te.func("f", [x, w], [y])))
    *_, last = sch.get_loops("y")
    sch.decompose_reduction("y", sch.get_loops("y")[0])
    with pytest.raises(ScheduleError, match="another number where the intrinsic has its 'bit'"):
        sch.tensorize(last, bit_dot_name((1, 1), exclusive=False, signs=0))


def test_the_intrinsic_is_found() -> None:
    for planes, exclusive, signs in (((1, 2), True, 2), ((2, 1), False, 1), ((2, 2), False, 0)):
        sch = product(planes, exclusive=exclusive, signs=signs)
        pattern = match_block(sch.block_op("y"))
        assert pattern is not None and pattern.is_contraction
        dot = dot_of(pattern, frozenset())
        assert dot is not None
        assert dot.name == bit_dot_name(planes, exclusive=exclusive, signs=signs)


def test_names_that_are_none() -> None:
    for name in ("bit_and_dot_1x1x16_by_0", "bit_and_dot_1x1x32_by_7", "bit_xor_dot_9x1x32_by_0"):
        with pytest.raises(UnsupportedError):
            intrinsic(name)


@pytest.mark.parametrize(
    ("cpu", "instructions"),
    [
        ("znver4", ["vpandd", "vpopcntd", "vpaddd"]),
        ("haswell", ["vpand", "vpshufb", "vpsadbw", "vpaddd"]),
        ("cortex-a53", ["and", "cnt", "uaddlp", "uadalp"]),
    ],
)
def test_instructions(cpu: str, instructions: list[str]) -> None:
    """An and, a popcount and an add for each vector of words, with the CPU's popcount
    instruction."""
    module = ModuleOp([scheduled((1, 1), exclusive=False, signs=0).func.clone()])
    kernel = next(phase for phase in pipeline(f"cpu:{cpu}") if phase.name == "kernel")
    lower(module, [kernel.without("plan-memory")])
    text = emit_assembly(module, named_target(cpu))
    for each in instructions:
        assert re.search(rf"\b{each}\b", text), each
