"""Sums of table entries selected by weights: interpreted, and as machine code."""

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
from tcopt.dialects.intrinsics.table_sums import chosen_entries, lookup_of, table_sum_name
from tcopt.dialects.simd import part_bits
from tcopt.dialects.te import api as te
from tcopt.passes.loop.bufferize.stage_nests import lower_function
from tcopt.schedules import Schedule
from tcopt.schedules.analysis.dots import dot_of
from tcopt.schedules.analysis.patterns import match_block
from tcopt.support.errors import ScheduleError, UnsupportedError
from tcopt.tools.execution.loop_executor import run_func

ROWS, STEPS = 2, 2

KINDS = {
    "one_plane": (8, 1, 64, 11, False),
    "negative": (3, 1, 16, 10, True),
    "two_planes": (4, 2, 64, 11, True),
    "two_bytes": (4, 2, 16, 10, False),
    "small_entries": (8, 1, 64, 5, False),
    "three_planes": (4, 3, 16, 6, True),
    "four_planes": (2, 4, 64, 11, True),
    "one_table": (1, 1, 16, 7, False),
}
"""Tables, planes, entries, bits of an entry, and whether the last plane is negative."""

Kind = tuple[int, int, int, int, bool]


def product(kind: Kind, lanes: int) -> Schedule:
    """Rows of tables, indexed by columns of indices."""
    groups, planes, entries, bits, signed = kind
    parts = len(part_bits(bits))
    x = te.placeholder((ROWS, STEPS, groups, parts, entries), "ui8", name="x")
    w = te.placeholder((STEPS, planes, groups, lanes), "ui8", name="w")
    k, e = te.reduce_axis(STEPS, "k"), te.reduce_axis(entries, "e")

    def term(m: te.Axis, n: te.Axis) -> te.Expr:
        tables = [[x[m, k, p, part, e] for part in range(parts)] for p in range(groups)]
        indices = [[w[k, j, p, n] for p in range(groups)] for j in range(planes)]
        return te.sum(chosen_entries(tables, indices, e, bits=bits, signed=signed), axis=[k, e])

    y = te.compute((ROWS, lanes), term, name="y")
    return Schedule(lower_function(te.func("f", [x, w], [y])))


def scheduled(kind: Kind, lanes: int) -> Schedule:
    sch = product(kind, lanes)
    m, n, k, e = sch.get_loops("y")
    sch.reorder(k, m, n, e)
    sch.decompose_reduction("y", k)
    groups, planes, entries, bits, signed = kind
    sch.tensorize(e, table_sum_name(groups, planes, entries, bits, signed=signed))
    sch.vectorize(n)
    return sch


def expected(kind: Kind, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Entries one by one; index bits beyond the used ones are arbitrary."""
    groups, planes, entries, bits, signed = kind
    widths = part_bits(bits)
    wide = [x[:, :, :, part].astype(np.int64) & ((1 << n) - 1) for part, n in enumerate(widths)]
    values = wide[0] if len(wide) == 1 else wide[0] + (wide[1] << 7)
    result = np.zeros((ROWS, w.shape[-1]), np.int64)
    for k, j, p in np.ndindex(STEPS, planes, groups):
        weight = -(1 << j) if signed and j == planes - 1 else 1 << j
        result += weight * values[:, k, p][:, w[k, j, p] % entries]
    return result


@pytest.mark.nightly(daily=["3-three_planes", "3-negative"])
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("lanes", [64, 3])
def test_results(name: str, lanes: int, rng: np.random.Generator) -> None:
    """The behaviour and its lowering, against numpy indexing."""
    kind = KINDS[name]
    sch = scheduled(kind, lanes)
    groups, planes, entries, bits, _ = kind
    x = rng.integers(0, 256, (ROWS, STEPS, groups, len(part_bits(bits)), entries), np.uint8)
    x[0] = 255
    w = rng.integers(0, 256, (STEPS, planes, groups, lanes), np.uint8)
    wanted = expected(kind, x, w)
    arrays = [x.view(np.int8), w.view(np.int8)]
    if lanes == 3:
        result = run_func(sch.func, [*arrays, np.zeros((ROWS, lanes), np.int32)])[-1]
        np.testing.assert_array_equal(result, wanted)
    module = ModuleOp([sch.func.clone()])
    kernel = next(phase for phase in pipeline() if phase.name == "kernel")
    lower(module, [kernel.without("plan-memory")])
    native = np.zeros((ROWS, lanes), np.int32)
    compile_module(module).function("f")(*arrays, native)
    np.testing.assert_array_equal(native, wanted)


@pytest.mark.parametrize(
    ("cpu", "instructions"),
    [
        ("znver4", ["vpermb", "vpaddb", "vpaddw"]),
        ("skylake-avx512", [r"vpshufb\s+%zmm[^\n]*", "vpaddw"]),
        ("haswell", [r"vpshufb\s+%ymm[^\n]*", "vpaddw"]),
        ("cortex-a53", ["tbl", "add"]),
    ],
)
def test_instructions(cpu: str, instructions: list[str]) -> None:
    """One instruction looks up all bytes of a register."""
    lookup = lookup_of(named_target(cpu).capabilities)
    assert lookup is not None
    kind = (4, 1, lookup.entries, 10, False)
    module = ModuleOp([scheduled(kind, 64).func.clone()])
    kernel = next(phase for phase in pipeline(f"cpu:{cpu}") if phase.name == "kernel")
    lower(module, [kernel.without("plan-memory")])
    text = emit_assembly(module, named_target(cpu))
    for each in instructions:
        assert re.search(rf"\b{each}\b", text), each


@pytest.mark.parametrize("name", KINDS)
def test_the_intrinsic_is_found(name: str) -> None:
    groups, planes, entries, bits, signed = KINDS[name]
    has = frozenset({"x86_64", "avx2"} | ({"avx512vbmi"} if entries == 64 else set()))
    pattern = match_block(product(KINDS[name], 64).block_op("y"))
    assert pattern is not None and pattern.is_contraction
    dot = dot_of(pattern, has)
    assert dot is not None
    assert dot.name == table_sum_name(groups, planes, entries, bits, signed=signed)
    assert dot_of(pattern, frozenset({"x86_64"})) is None


def test_another_sum_does_not_match() -> None:
    sch = product(KINDS["one_plane"], 64)
    *_, e = sch.get_loops("y")
    sch.decompose_reduction("y", sch.get_loops("y")[0])
    with pytest.raises(ScheduleError):
        sch.tensorize(e, table_sum_name(8, 1, 64, 10, signed=False))


@pytest.mark.parametrize(
    "name",
    [
        "table_sum_8x1x32_by_22",
        "table_sum_8x1x64_by_24",
        "table_sum_8x5x64_by_10",
        "table_sum_16x2x64_by_22",
        "table_sum_8x1x64",
    ],
)
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(UnsupportedError):
        intrinsic(name)
