"""Warp products distributed over lanes: fragment layouts and results."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from ml_dtypes import bfloat16
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir.affine import AffineConstantExpr

from programs.gpu_programs import LOOP_PASSES, fetch_together, kernel_of, run_on_threads
from tcopt.backends.named_gpus import named_gpu
from tcopt.backends.ptx.cuda_files import find_ptxas
from tcopt.backends.ptx.ptxas import assemble
from tcopt.backends.ptx.source import write_ptx
from tcopt.dialects import loop
from tcopt.dialects.fragments import Fragment, place_of_sum
from tcopt.dialects.simt import ExchangeRowsOp, MmaSyncOp
from tcopt.dialects.target import TARGET_ATTRIBUTE, GpuTargetAttr
from tcopt.dialects.te import api as te
from tcopt.interpreters.kernel_warps import WARP_RULES
from tcopt.passes.loop.bufferize.stage_nests import lower_function
from tcopt.schedules import Schedule

PASSES = f"lower-intrinsics,{LOOP_PASSES}".replace("lower-blocks", "lower-blocks,distribute-warp")
DTYPES = {"f16": np.dtype(np.float16), "bf16": np.dtype(bfloat16)}


# Matrix fragment layouts of mma.m16n8k16 and .m16n8k8 for f16 and bf16 from the PTX ISA: row and
# column of element i of a lane.


def isa_left(lane: int, i: int) -> tuple[int, int]:
    """ "Fragment layout for matrix A"; that of m16n8k8 is its first half."""
    group_id, thread_id_in_group = lane >> 2, lane % 4
    row = group_id if 0 <= i < 2 or 4 <= i < 6 else group_id + 8
    col = thread_id_in_group * 2 + (i & 0x1)
    return row, col if i < 4 else col + 8


def isa_right(lane: int, i: int) -> tuple[int, int]:
    """ "Fragment layout for matrix B"."""
    group_id, thread_id_in_group = lane >> 2, lane % 4
    row = thread_id_in_group * 2 + (i & 0x1)
    return row if i < 2 else row + 8, group_id


def isa_sums(lane: int, i: int) -> tuple[int, int]:
    """ "Fragment layout for accumulator matrix C/D"."""
    group_id, thread_id_in_group = lane >> 2, lane % 4
    return group_id if i < 2 else group_id + 8, thread_id_in_group * 2 + (i & 0x1)


FRAGMENTS = [
    (Fragment(16, 16), isa_left, 8),
    (Fragment(16, 8), isa_left, 4),
    (Fragment(16, 16 // 2), isa_sums, 4),
    (Fragment(16, 8, is_right=True), isa_right, 4),
    (Fragment(8, 8, is_right=True), isa_right, 2),
]


@pytest.mark.parametrize(("part", "isa", "count"), FRAGMENTS)
def test_lanes_hold_what_the_isa_says(part: Fragment, isa, count: int) -> None:
    for lane in range(32):
        row, column = (e.eval([lane], []) for e in part.origin(AffineConstantExpr(lane)))
        held = [
            (
                row + sum(n * step[0] for n, (_, step) in zip(point, part.box, strict=True)),
                column + sum(n * step[1] for n, (_, step) in zip(point, part.box, strict=True)),
            )
            for point in product(*(range(extent) for extent, _ in part.box))
        ]
        assert held == [isa(lane, i) for i in range(count)]


def test_sums_are_found_where_the_isa_has_them() -> None:
    for lane, i in product(range(32), range(4)):
        place = place_of_sum(*map(AffineConstantExpr, isa_sums(lane, i)))
        assert [e.eval([], []) for e in place] == [lane, i // 2, i % 2]


@pytest.mark.parametrize("depth", [8, 16])
def test_mma_multiplies_what_lanes_hold(rng: np.random.Generator, depth: int) -> None:
    """Split matrices and assemble sums by the ISA's formulae."""
    a, b, c = (rng.integers(-8, 8, shape) for shape in ((16, depth), (depth, 8), (16, 8)))
    left = np.array([[a[isa_left(t, i)] for i in range(depth // 2)] for t in range(32)], np.float16)
    right = np.array([[b[isa_right(t, i)] for i in range(depth // 4)] for t in range(32)])
    sums = np.array([[c[isa_sums(t, i)] for i in range(4)] for t in range(32)], np.float32)
    op = MmaSyncOp.create(properties={"shape": _shape(16, 8, depth)})
    result = WARP_RULES[op.name](op, [sums, left, right.astype(np.float16)])
    expected = a @ b + c
    assert all(result[t, i] == expected[isa_sums(t, i)] for t in range(32) for i in range(4))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_rows_are_exchanged_as_ldmatrix_does(count: int, transposed: bool) -> None:
    """Lanes 8 m to 8 m + 7 address the rows of matrix m; a lane receives two elements of row lane /
    4."""
    rows = np.arange(32 * 8).reshape(32, 8)
    source = _value(8)
    op = ExchangeRowsOp(source, count, transposed=transposed)
    result = WARP_RULES[op.name](op, [rows])
    for lane, matrix, i in product(range(32), range(count), range(2)):
        at = (lane // 4, 2 * (lane % 4) + i)
        row, column = at[::-1] if transposed else at
        assert result[lane, 2 * matrix + i] == rows[8 * matrix + row, column]


def _shape(*sizes: int):
    from xdsl.dialects.builtin import DenseArrayBase, i64

    return DenseArrayBase.from_list(i64, sizes)


def _value(count: int):
    from xdsl.dialects.builtin import VectorType, f16
    from xdsl.ir import Block

    return Block(arg_types=[VectorType(f16, [count])]).args[0]


# Tests of whole products.

M, N, K = 64, 48, 64


def product_of(element: str, left: str, right: str) -> loop.FuncOp:
    """y = a b, with a stored as `ik` or `ki` and b as `kj` or `jk`."""
    a = te.placeholder((M, K) if left == "ik" else (K, M), element, name="a")
    b = te.placeholder((K, N) if right == "kj" else (N, K), element, name="b")
    k = te.reduce_axis(K, "k")

    def term(i: te.Axis, j: te.Axis) -> te.Expr:
        x = a[i, k] if left == "ik" else a[k, i]
        w = b[k, j] if right == "kj" else b[j, k]
        return te.sum(te.cast(x, "f32") * te.cast(w, "f32"), axis=k)

    return lower_function(te.func("f", [a, b], [te.compute((M, N), term, name="y")]))


def tile_warps(sch: Schedule, intrinsic: str, *, shared: bool = True, padding: int = 8) -> None:
    """Blocks of 2 x 2 warps, of 32 x 16 elements each."""
    depth = int(intrinsic.split("_")[1].rpartition("k")[2])
    out = sch.cache_write("y", "register")
    i, j, k = sch.get_loops("y")
    block_i, warp_i, tile_i, row = sch.split(i, [None, 2, 1, 16])
    block_j, warp_j, tile_j, column = sch.split(j, [None, 2, 3, 8])
    k_outer, k_tile, k_inner = sch.split(k, [None, 2, depth])
    sch.reorder(
        block_i, block_j, warp_i, warp_j, k_outer, k_tile, tile_i, tile_j, row, column, k_inner
    )
    sch.bind(block_i, "blockIdx.y")
    sch.bind(block_j, "blockIdx.x")
    warp = sch.fuse(warp_i, warp_j)
    sch.bind(warp, "threadIdx.y")
    for name in ("a", "b") if shared else ():
        copy = sch.cache_read("y", name, "shared")
        fetch_together(sch, copy, k_outer, (4, 32))
        if padding:
            sch.storage_align(copy, 0, 16, padding)
    init = sch.decompose_reduction("y", k_outer)
    sch.tensorize(row, intrinsic)
    for each in (k_tile, tile_i, tile_j):
        sch.unroll(each)
    sch.reverse_compute_at(out, warp)
    for block in (init, out):
        loops = sch.get_loops(block)
        *outer, rows, columns = loops[loops.index(warp) + 1 :]
        if sch.extent(columns) > 8:
            part, columns = sch.split(columns, [None, 8])
            outer.append(part)
        high, low = sch.split(rows, [2, 8])
        pair, two = sch.split(columns, [4, 2])
        sch.reorder(*outer, high, low, pair, two)
        sch.bind(sch.fuse(low, pair), "threadIdx.x")
        sch.vectorize(two)
        for each in (*outer, high):
            sch.unroll(each)


def make_kernel(function: loop.FuncOp, target: GpuTargetAttr):
    """A kernel for a target."""
    return kernel_of(function, target, PASSES)


def operands(
    rng: np.random.Generator, element: str, left: str, right: str
) -> tuple[NDArray, NDArray, NDArray]:
    """Return both factors in their stored layout, and the product."""
    a = rng.standard_normal((M, K)).astype(DTYPES[element])
    b = rng.standard_normal((K, N)).astype(DTYPES[element])
    expected = a.astype(np.float32) @ b.astype(np.float32)
    stored = np.ascontiguousarray(a if left == "ik" else a.T)
    return stored, np.ascontiguousarray(b if right == "kj" else b.T), expected


CASES = [
    ("mma_m16n8k16_f16", "ik", "kj", "sm_80"),
    ("mma_m16n8k16_bf16", "ki", "jk", "sm_90"),
    ("mma_m16n8k8_f16", "ki", "kj", "sm_75"),
    ("mma_m16n8k8_bf16", "ik", "jk", "sm_80"),
]


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize(("intrinsic", "left", "right", "arch"), CASES)
def test_products(
    rng: np.random.Generator, intrinsic: str, left: str, right: str, arch: str
) -> None:
    element = intrinsic.rpartition("_")[2]
    sch = Schedule(product_of(element, left, right))
    tile_warps(sch, intrinsic)
    kernel = make_kernel(sch.func, named_gpu(arch))
    assert sum(op.name == "gpu.barrier" for op in kernel.walk()) == 2
    assert any(isinstance(op, ExchangeRowsOp) for op in kernel.walk())
    a, b, expected = operands(rng, element, left, right)
    result = run_on_threads(kernel, a, b, shape=(M, N))
    # Products of 16-bit values are exact in f32, and sums may be in any order.
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("shared", "padding"), [(True, 3), (False, 0)])
def test_lanes_load_their_own_elements(
    rng: np.random.Generator, shared: bool, padding: int
) -> None:
    """Operands with unaligned rows, or in global memory."""
    sch = Schedule(product_of("f16", "ik", "kj"))
    tile_warps(sch, "mma_m16n8k16_f16", shared=shared, padding=padding)
    kernel = make_kernel(sch.func, named_gpu("sm_80"))
    assert not any(isinstance(op, ExchangeRowsOp) for op in kernel.walk())
    a, b, expected = operands(rng, "f16", "ik", "kj")
    result = run_on_threads(kernel, a, b, shape=(M, N))
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas; pip install nvidia-cuda-nvcc-cu12")
@pytest.mark.parametrize(("intrinsic", "left", "right", "arch"), CASES)
def test_ptxas_takes_them(intrinsic: str, left: str, right: str, arch: str) -> None:
    target = named_gpu(arch)
    sch = Schedule(product_of(intrinsic.rpartition("_")[2], left, right))
    tile_warps(sch, intrinsic)
    module = ModuleOp([make_kernel(sch.func, target).clone()], {TARGET_ATTRIBUTE: target})
    text = write_ptx(module, planned=True)
    assert text.count("mma.sync") == 6 and "ldmatrix" in text
    (found,) = assemble(text, arch)[1]
    assert found.stack == found.spill_stores == 0
