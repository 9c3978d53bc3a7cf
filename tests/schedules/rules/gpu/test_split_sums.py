"""Contractions with few results and long sums: blocks share each sum (split-K)."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx.parser
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.func import FuncOp as KernelOp

import tcopt
from machines.opencl_device import needs_device
from programs.gpu_programs import kernels_of, run_launches
from running.examples import examples
from tcopt.backends.named_gpus import named_gpu
from tcopt.dialects import loop
from tcopt.dialects.simt import MmaSyncOp
from tcopt.dialects.target import GpuTargetAttr
from tcopt.dialects.te import api as te
from tcopt.passes.loop.bufferize.stage_nests import lower_function
from tcopt.runtime.device.program import DeviceProgram
from tcopt.runtime.device.steps import Launch
from tcopt.schedules.rules.gpu import shared_tile, tensor_core_tile
from tcopt.support.remarks import collect_remarks

# Tolerance for some thousand float32 numbers added in another order; 16-bit products are exact.
TOLERANCE = {"rtol": 1e-5, "atol": 3e-4}

_HEAD = '<ir_version: 10, opset_import: ["" : 21]>'


def small_gpu() -> GpuTargetAttr:
    """A device that is busy with little work."""
    return GpuTargetAttr(
        "opencl",
        features="shuffle",
        warp=4,
        max_threads=16,
        registers=64,
        shared=8192,
        vector_bits=128,
        cores=12,
    )


def contraction(m: int, n: int, depth: int, window: int, end: str, element: str) -> loop.FuncOp:
    """y[i, j] = sum of a[i, k, w] * b[k, j + w] over k and w, with an optional epilogue."""
    a = te.placeholder((m, depth, window), element, name="a")
    b = te.placeholder((depth, n + window - 1), element, name="b")
    c = te.placeholder((n,), name="c")
    k, w = te.reduce_axis(depth, "k"), te.reduce_axis(window, "w")
    y = te.compute(
        (m, n),
        lambda i, j: te.sum(te.cast(a[i, k, w], "f32") * te.cast(b[k, j + w], "f32"), axis=[k, w]),
        name="y",
    )
    if end == "bias":
        sums = y
        y = te.compute(
            (m, n),
            lambda i, j: (sums[i, j] + c[j]) * te.maximum(sums[i, j] + c[j], 0.0),
            name="z",
        )
    elif end == "transposed":
        y = te.compute((n, m), lambda j, i, sums=y: sums[i, j] + c[j], name="z")
    return lower_function(te.func("f", [a, b, c], [y]))


def expected(a: np.ndarray, b: np.ndarray, c: np.ndarray, end: str) -> np.ndarray:
    """Compute `contraction` in float64."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    window = a.shape[2]
    n = b.shape[1] - window + 1
    y = sum(a[:, :, w] @ b[:, w : w + n] for w in range(window))
    if end == "bias":
        return (y + c) * np.maximum(y + c, 0)
    return (y + c).T if end == "transposed" else y


def check(
    sizes: tuple[int, int, int, int], end: str, element: str, target: GpuTargetAttr
) -> list[KernelOp]:
    """Run all launches of a contraction, checking for races, and compare."""
    m, n, depth, window = sizes
    kernels = kernels_of(contraction(*sizes, end, element), target)
    rng = np.random.default_rng(prod(sizes))
    dtype = np.float16 if element == "f16" else np.float32
    a = rng.standard_normal((m, depth, window)).astype(dtype)
    b = rng.standard_normal((depth, n + window - 1)).astype(dtype)
    arrays = {"a": a, "b": b, "c": rng.standard_normal(n).astype(np.float32)}
    run_launches(kernels, arrays)
    result = arrays["y" if end == "none" else "z"]
    np.testing.assert_allclose(result, expected(a, b, arrays["c"], end), **TOLERANCE)
    return kernels


@settings(max_examples=examples(4), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_sizes(data: st.DataObject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of any length, a shorter last one, and any epilogue."""
    parts = data.draw(st.integers(2, 5))
    monkeypatch.setattr(shared_tile, "choose_parts", lambda *given: parts)
    m, n = data.draw(st.integers(2, 9)), data.draw(st.integers(2, 9))
    sizes = m, n, data.draw(st.integers(40, 60)), data.draw(st.integers(1, 3))
    end = data.draw(st.sampled_from(["none", "bias", "transposed"]))
    kernels = check(sizes, end, "f32", small_gpu())
    assert len(kernels) == (3 if end == "transposed" else 2)


@pytest.mark.parametrize(("depth", "window", "end"), [(256, 1, "bias"), (128, 3, "none")])
def test_parts_of_sums_on_tensor_cores(
    depth: int, window: int, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_core_tile, "choose_parts", lambda *given: 4)
    monkeypatch.setattr(tensor_core_tile, "shared_tile_time", lambda *given: None)
    kernels = check((24, 20, depth, window), end, "f16", named_gpu("sm_80"))
    first, second = kernels
    assert any(isinstance(op, MmaSyncOp) for op in first.walk())
    assert not any(isinstance(op, MmaSyncOp) for op in second.walk())


def grids(text: str, target: str) -> list[int]:
    """Return the blocks of each launch of a model."""
    program = tcopt.compile(onnx.parser.parse_model(f"{_HEAD}\n{text}"), target).program
    assert isinstance(program, DeviceProgram)
    return [prod(step.grid) for step in program.steps if isinstance(step, Launch)]


def product(m: int, n: int, depth: int, kind: str = "float") -> str:
    return (
        f"f ({kind}[{m}, {depth}] a, {kind}[{depth}, {n}] b) => ({kind}[{m}, {n}] y) "
        "{ y = MatMul (a, b) }"
    )


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize("kind", ["float", "float16"])
@pytest.mark.parametrize(("m", "n", "depth"), [(64, 64, 8192), (49, 512, 2048)])
def test_long_sums_keep_the_cores_busy(kind: str, m: int, n: int, depth: int) -> None:
    first, _ = grids(product(m, n, depth, kind), "cuda:sm_80")
    assert first >= 64


@pytest.mark.parametrize("size", [(1024, 1024, 1024), (64, 64, 64), (2048, 512, 256)])
def test_other_sums_stay_whole(size: tuple[int, int, int]) -> None:
    assert len(grids(product(*size), "cuda:sm_80")) == 1


def test_a_pointwise_convolution_of_a_small_image() -> None:
    """The epilogue is computed by the launch that adds the partial sums."""
    text = """f (float[1, 2048, 7, 7] x, float[512, 2048, 1, 1] w, float[512] b,
                 float[1, 512, 7, 7] r) => (float[1, 512, 7, 7] y) {
          c = Conv (x, w, b) s = Add (c, r) y = Relu (s) }"""
    first, _ = grids(text, "cuda:sm_80")
    assert first >= 128


@pytest.mark.nightly
@needs_device
@pytest.mark.parametrize(
    "text",
    [
        product(64, 64, 8192),
        product(20, 33, 4099),
        """f (float[1, 512, 7, 7] x, float[24, 512, 3, 3] w, float[24] b,
              float[1, 24, 7, 7] r) => (float[1, 24, 7, 7] y) {
          c = Conv <pads = [1, 1, 1, 1]> (x, w, b) s = Add (c, r) g = Sigmoid (s)
          y = Mul (s, g) }""",
    ],
)
def test_results_on_a_device(text: str) -> None:
    """The error is as small as a float32 sum of so many random numbers allows."""
    model = onnx.parser.parse_model(f"{_HEAD}\n{text}")
    rng = np.random.default_rng(5)
    feeds = {
        each.name: rng.standard_normal([d.dim_value for d in each.type.tensor_type.shape.dim])
        for each in model.graph.input
    }
    feeds = {name: value.astype(np.float32) for name, value in feeds.items()}
    with collect_remarks() as remarks:
        made = tcopt.compile(model, "opencl", cache=False, workers=0)
    assert any("parts of each sum" in remark.message for remark in remarks)
    (ours,) = made.run(feeds)
    (theirs,) = tcopt.compile(model, "cpu").run(feeds)
    assert np.abs(ours - theirs).max() <= 1e-5 * np.ptp(theirs)
