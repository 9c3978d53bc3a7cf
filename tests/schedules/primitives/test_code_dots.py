"""Dot products of codes in words with bytes: interpreted, and as machine code."""

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
from tcopt.dialects.intrinsics.code_dots import BYTES, code_dot_name, code_products
from tcopt.dialects.te import api as te
from tcopt.passes.loop.bufferize.stage_nests import lower_function
from tcopt.schedules import Schedule
from tcopt.support.errors import ScheduleError, UnsupportedError
from tcopt.tools.execution.loop_executor import run_func

WORDS = 2


def product(bits: int, lanes: int) -> Schedule:
    """Sums over words of codes in columns."""
    fields = 8 // bits
    x = te.placeholder((WORDS, fields, BYTES), "i8", name="x")
    w = te.placeholder((WORDS, lanes), "ui32", name="w")
    k, j = te.reduce_axis(WORDS, "k"), te.reduce_axis(BYTES, "j")

    def term(n: te.Axis) -> te.Expr:
        factors = [x[k, field, j] for field in range(fields)]
        return te.sum(code_products(w[k, n], factors, j, bits), axis=[k, j])

    y = te.compute((lanes,), term, name="y")
    return Schedule(lower_function(te.func("f", [x, w], [y])))


def scheduled(bits: int, lanes: int) -> Schedule:
    sch = product(bits, lanes)
    n, k, j = sch.get_loops("y")
    sch.reorder(k, n, j)
    sch.decompose_reduction("y", k)
    sch.tensorize(j, code_dot_name(bits))
    if lanes > 1:
        sch.vectorize(n)
    return sch


def kernel_of(sch: Schedule, target: str = "cpu") -> ModuleOp:
    module = ModuleOp([sch.func.clone()])
    kernel = next(phase for phase in pipeline(target) if phase.name == "kernel")
    lower(module, [kernel.without("plan-memory")])
    return module


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("lanes", [1, 3, 8])
def test_results(bits: int, lanes: int, rng: np.random.Generator) -> None:
    """The behaviour and its lowering, with the largest codes and bytes, against numpy."""
    sch = scheduled(bits, lanes)
    x = rng.integers(-128, 128, (WORDS, 8 // bits, BYTES)).astype(np.int8)
    w = rng.integers(0, 1 << 32, (WORDS, lanes), np.uint32)
    x[0], w[0] = -128, 0xFFFFFFFF
    shifts = bits * np.arange(8 // bits)[:, None] + 8 * np.arange(BYTES)
    codes = (w[:, None, None] >> shifts[..., None].astype(np.uint32)) & ((1 << bits) - 1)
    wanted = (codes.astype(np.int64) * x[..., None]).sum((0, 1, 2))
    arrays = [x, w.view(np.int32)]
    result = run_func(sch.func, [*arrays, np.zeros(lanes, np.int32)])[-1]
    np.testing.assert_array_equal(result, wanted)
    native = np.zeros(lanes, np.int32)
    compile_module(kernel_of(sch)).function("f")(*arrays, native)
    np.testing.assert_array_equal(native, wanted)


@pytest.mark.parametrize(
    ("cpu", "bits", "instructions"),
    [
        ("znver4", 4, ["vpdpbusd"]),
        ("haswell", 4, ["vpmaddubsw", "vpmaddwd"]),
        ("haswell", 8, ["vpmaddwd"]),
        ("neoverse-v1", 2, ["usdot"]),
        ("cortex-a53", 4, ["mla"]),
    ],
)
def test_instructions(cpu: str, bits: int, instructions: list[str]) -> None:
    """Byte products where they are exact, else products of 16 bits or single products."""
    lanes = 4 if cpu.startswith(("neo", "cortex")) else 8
    text = emit_assembly(kernel_of(scheduled(bits, lanes), f"cpu:{cpu}"), named_target(cpu))
    for each in instructions:
        assert re.search(rf"\b{each}\b", text), each


def test_another_width_does_not_match() -> None:
    sch = product(4, 8)
    *_, j = sch.get_loops("y")
    sch.decompose_reduction("y", sch.get_loops("y")[0])
    with pytest.raises(ScheduleError):
        sch.tensorize(j, code_dot_name(8))


@pytest.mark.parametrize("name", ["code_dot_3", "code_dot_4x4", "code_dot_4_by_1"])
def test_unknown_members(name: str) -> None:
    with pytest.raises(UnsupportedError):
        intrinsic(name)
