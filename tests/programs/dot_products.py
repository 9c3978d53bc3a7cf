"""Matrix products of narrow elements, manually scheduled with a dot-product intrinsic."""

from __future__ import annotations

from typing import NamedTuple

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tcopt.compiler import Phase, lower, pipeline
from tcopt.dialects.intrinsics import intrinsic
from tcopt.dialects.loop import FuncOp
from tcopt.dialects.te import api as te
from tcopt.dialects.te.dtypes import element_type
from tcopt.passes.loop.bufferize.stage_nests import lower_function
from tcopt.schedules import Schedule


class Case(NamedTuple):
    """dtypes of an intrinsic's factors and sum, as in tensor expressions."""

    name: str
    left: str
    right: str
    total: str


CASES = (
    Case("bf16_dot", "bf16", "bf16", "f32"),
    Case("s8_dot", "i8", "i8", "i32"),
    Case("u8s8_dot", "ui8", "i8", "i32"),
    Case("s16_dot", "i16", "i16", "i32"),
)
_NUMPY = {
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "i8": np.int8,
    "i16": np.int16,
    "ui8": np.uint8,
}


def product(case: Case, rows: int, columns: int, depth: int) -> FuncOp:
    """A product whose right factor is stored in groups."""
    (group,) = intrinsic(case.name).operands[1].shape
    x = te.placeholder((rows, depth), case.left, name="x")
    w = te.placeholder((depth // group, columns, group), case.right, name="w")
    k = te.reduce_axis(depth, "k")

    def term(i: te.Axis, j: te.Axis) -> te.Expr:
        total = element_type(case.total)
        right = w[k // group, j, k % group]
        return te.sum(te.cast(x[i, k], total) * te.cast(right, total), axis=k)

    mm = te.compute((rows, columns), term, name="mm")
    return lower_function(te.func("matmul", [x, w], mm))


def scheduled(case: Case, rows: int, columns: int, depth: int, lanes: int) -> Schedule:
    """Schedule the product with a register tile of all rows."""
    (group,) = intrinsic(case.name).operands[1].shape
    sch = Schedule(product(case, rows, columns, depth))
    copy = sch.cache_write("mm", "register")
    i, j, k_loop = sch.get_loops("mm")
    outer, lane = sch.split(j, [None, lanes])
    steps, pair = sch.split(k_loop, [None, group])
    sch.reorder(outer, steps, i, lane, pair)
    init = sch.decompose_reduction("mm", steps)
    sch.tensorize(pair, case.name)
    sch.reverse_compute_at(copy, outer)
    for block in (init, sch.get_block("mm"), copy):
        *_, row, column = sch.get_loops(block)
        sch.vectorize(column)
        sch.unroll(row)
    return sch


def factors(
    case: Case, rows: int, columns: int, depth: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return random factors, the right one also in groups, and their product."""
    (group,) = intrinsic(case.name).operands[1].shape
    arrays = [
        _random(_NUMPY[dtype], shape, rng)
        for dtype, shape in ((case.left, (rows, depth)), (case.right, (depth, columns)))
    ]
    total = np.float32 if case.total == "f32" else np.int32
    expected = arrays[0].astype(total) @ arrays[1].astype(total)
    grouped = arrays[1].reshape(depth // group, group, columns).transpose(0, 2, 1)
    return arrays[0], np.ascontiguousarray(grouped), expected


def _random(dtype: type, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if dtype is ml_dtypes.bfloat16:
        return rng.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def lowered(sch: Schedule, target: str = "host") -> ModuleOp:
    """Return the kernel-level module of a schedule's function."""
    module = ModuleOp([sch.func.clone()])
    kernel = next(phase for phase in pipeline() if phase.name == "kernel")
    lower(module, [Phase("target", f"set-target{{cpu={target}}}"), kernel.without("plan-memory")])
    return module
