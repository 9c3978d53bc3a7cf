"""The rule for tensor cores: its kernels on the interpreter and through ptxas, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ml_dtypes import bfloat16
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from xdsl.dialects import memref
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp as KernelOp

from programs.gpu_programs import LOOP_PASSES, kernel_of, run_on_threads
from running.examples import examples
from tcopt.backends.named_gpus import named_gpu
from tcopt.backends.ptx.cuda_files import find_ptxas
from tcopt.backends.ptx.ptxas import KernelResources, assemble
from tcopt.backends.ptx.source import write_ptx
from tcopt.dialects import loop
from tcopt.dialects.simt import ExchangeRowsOp, MmaSyncOp
from tcopt.dialects.target import TARGET_ATTRIBUTE
from tcopt.dialects.te import api as te
from tcopt.passes.loop.bufferize.stage_nests import lower_function
from tcopt.schedules import Schedule
from tcopt.schedules.analysis.patterns import BlockPattern
from tcopt.schedules.rules.gpu.facts import gpu_facts
from tcopt.schedules.rules.gpu.register_tile import only_contraction
from tcopt.schedules.rules.gpu.tensor_core_choice import WarpTile, WarpTileCosts
from tcopt.schedules.rules.gpu.tensor_core_roles import find_warp_roles, matrix_products, mmas_for
from tcopt.schedules.rules.gpu.tensor_core_tile import TensorCoreTiles, schedule_tile
from tcopt.schedules.rules.rule import Declined

PASSES = f"lower-intrinsics,{LOOP_PASSES}".replace("lower-blocks", "lower-blocks,distribute-warp")
DTYPES = {"f16": np.dtype(np.float16), "bf16": np.dtype(bfloat16), "f32": np.dtype(np.float32)}

SHARED = IntegerAttr(3, 64)

needs_ptxas = pytest.mark.skipif(
    find_ptxas() is None, reason="no ptxas; pip install nvidia-cuda-nvcc-cu12"
)


@dataclass(frozen=True)
class Program:
    """A contraction, its inputs' shapes and dtypes, and its results in f32."""

    function: Callable[[], loop.FuncOp]
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    shape: tuple[int, ...]
    expected: Callable[..., NDArray]


def products(
    batch: int,
    m: int,
    n: int,
    depth: int,
    *,
    left: str = "ik",
    right: str = "kj",
    end: str = "none",
    element: str = "f16",
) -> Program:
    """Matrix products in either layout, with a bias and activation, or transposed."""
    sizes = {"i": m, "k": depth, "j": n}
    shapes = [(batch, *(sizes[axis] for axis in axes)) for axes in (left, right)]
    shape = (batch, n, m) if end == "transposed" else (batch, m, n)

    def function() -> loop.FuncOp:
        a, b = (te.placeholder(s, element, name=x) for s, x in zip(shapes, "ab", strict=True))
        c = te.placeholder((n,), "f32", name="c")
        k = te.reduce_axis(depth, "k")

        def term(g: te.Axis, i: te.Axis, j: te.Axis) -> te.Expr:
            x = a[g, i, k] if left == "ik" else a[g, k, i]
            y = b[g, k, j] if right == "kj" else b[g, j, k]
            return te.sum(te.cast(x, "f32") * te.cast(y, "f32"), axis=k)

        y = te.compute((batch, m, n), term, name="product")
        if end == "bias":
            y = te.compute(
                shape, lambda g, i, j: te.maximum(y[g, i, j] + c[j], 0.0), name="activated"
            )
        if end == "transposed":
            y = te.compute(shape, lambda g, j, i: y[g, i, j] + c[j], name="transposed")
        return lower_function(te.func("f", [a, b, c], [y]))

    def expected(a: NDArray, b: NDArray, c: NDArray) -> NDArray:
        a, b = (x.astype(np.float32) for x in (a, b))
        y = (a if left == "ik" else a.swapaxes(1, 2)) @ (b if right == "kj" else b.swapaxes(1, 2))
        if end == "bias":
            return np.maximum(y + c, 0)
        return (y + c).swapaxes(1, 2) if end == "transposed" else y

    return Program(function, (*((s, element) for s in shapes), ((n,), "f32")), shape, expected)


def convolution(
    channels: int,
    size: tuple[int, int],
    features: int,
    window: int,
    stride: int = 1,
    pad: int = 0,
    batch: int = 1,
) -> Program:
    """A convolution of NCHW with a bias per feature and a residual."""
    shapes = (batch, channels, *size), (features, channels, window, window)
    out = [(extent + 2 * pad - window) // stride + 1 for extent in size]
    shape = (batch, features, *out)

    def function() -> loop.FuncOp:
        x, w = (te.placeholder(s, "f16", name=name) for s, name in zip(shapes, "xw", strict=True))
        b, r = te.placeholder((features,), "f32", name="b"), te.placeholder(shape, "f32", name="r")
        axes = (("rc", channels), ("ry", window), ("rx", window))
        rc, ry, rx = (te.reduce_axis(extent, name) for name, extent in axes)
        image = x
        if pad:
            padded = (batch, channels, *(extent + 2 * pad for extent in size))
            image = te.compute(
                padded, lambda n, c, i, j: x.read((n, c, i - pad, j - pad), 0.0), name="image"
            )

        def term(n: te.Axis, f: te.Axis, i: te.Axis, j: te.Axis) -> te.Expr:
            data = image[n, rc, i * stride + ry, j * stride + rx]
            factors = te.cast(data, "f32"), te.cast(w[f, rc, ry, rx], "f32")
            return te.sum(factors[0] * factors[1], axis=[rc, ry, rx])

        y = te.compute(shape, term, name="conv")
        out = te.compute(shape, lambda *at: y[at] + b[at[1]] + r[at], name="out")
        return lower_function(te.func("f", [x, w, b, r], [out]))

    def expected(x: NDArray, w: NDArray, b: NDArray, r: NDArray) -> NDArray:
        spaces = ((0, 0), (0, 0), (pad, pad), (pad, pad))
        image = np.pad(x.astype(np.float32), spaces)
        windows = sliding_window_view(image, (window, window), axis=(2, 3))
        windows = windows[:, :, ::stride, ::stride]
        y = np.einsum("ncijyx,fcyx->nfij", windows, w.astype(np.float32))
        return y + b[:, None, None] + r

    inputs = *((s, "f16") for s in shapes), ((features,), "f32"), (shape, "f32")
    return Program(function, inputs, shape, expected)


def scheduled(
    program: Program,
    arch: str,
    pick: Callable[[list[WarpTile]], WarpTile] | None = None,
) -> KernelOp:
    """Return the rule's kernel, with its default tile or a given one."""
    target = named_gpu(arch)
    facts = gpu_facts(target)
    sch = Schedule(program.function())
    if pick is None:
        space = TensorCoreTiles().space(sch, facts)
        assert not isinstance(space, Declined)
        assert TensorCoreTiles().apply(sch, facts, space, space.default()) is None
    else:
        pattern = only_contraction(sch)
        assert isinstance(pattern, BlockPattern)
        roles, mmas = find_warp_roles(pattern, facts), mmas_for(pattern, matrix_products(facts))
        assert not isinstance(roles, Declined) and not isinstance(mmas, Declined)
        costs = WarpTileCosts(pattern, roles, facts)
        fitting = [tile for tile in costs.candidates(mmas) if costs.fits(tile)]
        tile = pick(fitting)
        expected = costs.shared_bytes(tile)
        assert schedule_tile(sch, pattern, roles, tile, facts) == []
        kernel = kernel_of(sch.func, target, PASSES)
        assert 0 < shared_bytes(kernel) <= expected
        return kernel
    return kernel_of(sch.func, target, PASSES)


def shared_bytes(kernel: KernelOp) -> int:
    """Return the shared memory of a kernel's block."""
    buffers = (op.memref.type for op in kernel.walk() if isinstance(op, memref.AllocaOp))
    return sum(2 * prod(type_.get_shape()) for type_ in buffers if type_.memory_space == SHARED)


def check(program: Program, kernel: KernelOp, seed: int = 0) -> None:
    """Run a kernel, checking for races, and compare."""
    assert any(isinstance(op, MmaSyncOp) for op in kernel.walk())
    rng = np.random.default_rng(seed)
    inputs = [rng.standard_normal(shape).astype(DTYPES[dtype]) for shape, dtype in program.inputs]
    result = run_on_threads(kernel, *inputs, shape=program.shape)
    # Products of 16-bit values are exact in f32, and sums may be in any order.
    np.testing.assert_allclose(result, program.expected(*inputs), rtol=1e-5, atol=1e-4)


@pytest.mark.nightly
@settings(max_examples=examples(8), deadline=None)
@given(data=st.data())
def test_products_of_any_size_in_any_tile(data: st.DataObject) -> None:
    def size(most: int) -> int:
        return data.draw(st.integers(2, most))

    program = products(
        data.draw(st.integers(1, 2)),
        size(40),
        size(40),
        size(64) + 6,
        left=data.draw(st.sampled_from(["ik", "ki"])),
        right=data.draw(st.sampled_from(["kj", "jk"])),
        end=data.draw(st.sampled_from(["none", "bias", "transposed"])),
        element=data.draw(st.sampled_from(["f16", "bf16"])),
    )
    kernel = scheduled(program, "sm_80", lambda tiles: data.draw(st.sampled_from(tiles)))
    check(program, kernel, data.draw(st.integers(0, 9)))


@settings(max_examples=examples(4), deadline=None)
@given(data=st.data())
def test_convolutions_of_any_size_in_any_tile(data: st.DataObject) -> None:
    window = data.draw(st.sampled_from([1, 3]))
    program = convolution(
        data.draw(st.integers(8, 20)),
        (data.draw(st.integers(4, 8)), data.draw(st.integers(4, 11))),
        data.draw(st.integers(2, 20)),
        window,
        stride=data.draw(st.integers(1, 2)),
        pad=window // 2,
        batch=data.draw(st.integers(1, 2)),
    )
    arch = data.draw(st.sampled_from(["sm_75", "sm_80"]))
    kernel = scheduled(program, arch, lambda tiles: data.draw(st.sampled_from(tiles)))
    check(program, kernel)


CASES = [
    (products(1, 64, 64, 128, end="bias"), "sm_80", 2),
    (products(2, 80, 72, 136, left="ki", right="jk", element="bf16"), "sm_90", 2),
    (products(1, 64, 50, 61, end="transposed"), "sm_75", 2),
    (convolution(16, (6, 8), 32, 3, pad=1), "sm_75", 2),
    (convolution(64, (16, 16), 256, 1, stride=2), "sm_80", 2),
]
"""Programs, an architecture, and the maximum number of barriers of a kernel."""


@pytest.mark.parametrize(("program", "arch", "barriers"), CASES)
def test_the_tile_that_is_chosen(program: Program, arch: str, barriers: int) -> None:
    kernel = scheduled(program, arch)
    assert any(isinstance(op, ExchangeRowsOp) for op in kernel.walk())
    assert sum(op.name == "gpu.barrier" for op in kernel.walk()) <= barriers
    check(program, kernel)


def assembled(program: Program, arch: str) -> tuple[str, KernelResources]:
    """Return the rule's kernel as PTX, and ptxas's report."""
    module = ModuleOp([scheduled(program, arch).clone()], {TARGET_ATTRIBUTE: named_gpu(arch)})
    text = write_ptx(module, planned=True)
    (found,) = assemble(text, arch)[1]
    return text, found


@needs_ptxas
@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_ptxas_takes_large_products(arch: str) -> None:
    """There are no spills, and each fragment is loaded once."""
    text, found = assembled(products(1, 2048, 2048, 64, end="bias"), arch)
    assert text.count("ldmatrix") < text.count("mma.sync")
    assert ("cp.async.cg" if arch == "sm_90" else "ld.global.nc.v4.b32") in text
    assert found.stack == found.spill_stores == 0


@needs_ptxas
def test_ptxas_takes_convolutions() -> None:
    """By default ptxas would rather spill a register than run fewer blocks at once."""
    text, found = assembled(convolution(64, (56, 56), 128, 3, stride=2, pad=1), "sm_80")
    assert "mma.sync" in text and found.stack == found.spill_stores == 0


def test_zeros_that_are_no_numbers_elsewhere() -> None:
    """Elements beyond the end of a sum do not contribute, whatever is stored next to it."""
    program = products(1, 20, 12, 21)
    kernel = scheduled(program, "sm_80", lambda tiles: tiles[0])
    rng = np.random.default_rng(1)
    a, b, c = (rng.standard_normal(s).astype(DTYPES[d]) for s, d in program.inputs)
    a[0, 3, :], b[0, :, 5] = np.inf, np.nan
    result = run_on_threads(kernel, a, b, c, shape=program.shape)
    with np.errstate(invalid="ignore"):
        expected = program.expected(a, b, c)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-4)


def refusal(program: Program, arch: str) -> str:
    answer = TensorCoreTiles().space(Schedule(program.function()), gpu_facts(named_gpu(arch)))
    assert isinstance(answer, Declined)
    return answer.reason


REFUSALS = [
    (
        products(1, 64, 64, 64, element="f32"),
        "sm_80",
        "no products of f32 and f32 summed in f32; p",
    ),
    (products(1, 64, 64, 64, element="bf16"), "sm_75", "no products of bf16 and bf16"),
    (products(1, 64, 64, 64), "sm_70", "warps of the target do not multiply matrices"),
    (products(1, 64, 64, 64), "opencl", "warps of the target do not multiply matrices"),
    (products(1, 1, 64, 64), "sm_80", "no operand serves several rows"),
]


@pytest.mark.parametrize(("program", "arch", "reason"), REFUSALS)
def test_refusals(program: Program, arch: str, reason: str) -> None:
    assert reason in refusal(program, arch)


def test_slow_tensor_cores_are_not_used() -> None:
    slow = replace(gpu_facts(named_gpu("sm_80")), matrix_rate=1, barrier=10_000)
    program = convolution(32, (7, 7), 32, 1, stride=2)
    answer = TensorCoreTiles().space(Schedule(program.function()), slow)
    assert isinstance(answer, Declined)
    assert "times as long as those of single elements" in answer.reason
