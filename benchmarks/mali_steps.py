"""The steps of the post on Mali GPUs: a 3x3 layer of VGG, bound to threads, unrolled, vectorised.

    python benchmarks/mali_steps.py [--size 56] [--json benchmarks/results/mali_steps.json]

The schedule is written with the primitives of the `Schedule` API, as in the post: four pixels and
four channels a thread, weights packed by four channels. It runs on the OpenCL device of the
machine, and results are compared with numpy.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from saved import save
from tcopt.backends.named_gpus import named_gpu
from tcopt.backends.opencl.source import write_source
from tcopt.compiler.passes import run_passes
from tcopt.dialects.gpu_kernels import BLOCK_SIZE, GRID_SIZE, sizes_of
from tcopt.dialects.target import TARGET_ATTRIBUTE
from tcopt.dialects.te import api as te
from tcopt.passes.loop.bufferize.stage_nests import lower_function
from tcopt.runtime.device.interface import KernelSource
from tcopt.runtime.device.opencl import OpenCLDevice, opencl_device
from tcopt.runtime.device.steps import BufferOffset, Launch
from tcopt.schedules import Schedule

STEPS = ("bind", "unroll", "vectorise")
PUBLISHED = {"bind": 0.6588, "unroll": 9.9796, "vectorise": 28.3679}
"""GFLOP/s of the post on a Mali-T860, where the Arm Compute Library has 20.3."""

PASSES = (
    "compact-buffers,align-storage,lower-blocks,vectorize,unroll-loops,lower-loop-to-kernel,"
    "promote-registers,dce"
)
_PACKED, _THREADS = 4, 8


def scheduled(step: str, size: int, channels: int) -> FuncOp:
    """The kernel of a step."""
    data = te.placeholder((channels, size + 2, size + 2), name="data")
    blocks = channels // _PACKED
    kernel = te.placeholder((blocks, channels, 3, 3, _PACKED), name="kernel")
    sizes = ((channels, "ci"), (3, "kh"), (3, "kw"))
    inputs, rows, columns = (te.reduce_axis(size, name) for size, name in sizes)
    conv = te.compute(
        (blocks, size, size // _PACKED, _PACKED, _PACKED),
        lambda co, h, w, vw, vc: te.sum(
            data[inputs, h + rows, w * _PACKED + vw + columns]
            * kernel[co, inputs, rows, columns, vc],
            axis=[inputs, rows, columns],
        ),
        name="conv",
    )
    sch = Schedule(lower_function(te.func("conv", [data, kernel], [conv])))
    co, h, w, vw, vc, ci, kh, kw = sch.get_loops("conv")
    block, thread = sch.split(co, [None, min(_THREADS, blocks)])
    sch.reorder(block, thread, h, w, ci, kh, kw, vw, vc)
    for loop, axis in zip(
        (block, thread, h, w),
        ("blockIdx.z", "threadIdx.z", "blockIdx.y", "blockIdx.x"),
        strict=True,
    ):
        sch.bind(loop, axis)
    init = sch.decompose_reduction("conv", ci)
    if step != "bind":
        own = sch.get_loops(init)[-2:]
        for loop in (kh, kw, vw, own[0]):
            sch.unroll(loop)
        for loop in (vc, own[1]):
            (sch.vectorize if step == "vectorise" else sch.unroll)(loop)
    module = ModuleOp([sch.func], {TARGET_ATTRIBUTE: named_gpu("opencl")})
    run_passes(module, PASSES)
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    return function


def measure(size: int, channels: int, rounds: int) -> Iterator[dict[str, Any]]:
    """Every step on the device; times of interleaved rounds."""
    device = opencl_device()
    rng = np.random.default_rng(0)
    data = np.zeros((channels, size + 2, size + 2), np.float32)
    data[:, 1:-1, 1:-1] = rng.standard_normal((channels, size, size), np.float32)
    weights = rng.standard_normal((channels // _PACKED, channels, 3, 3, _PACKED), np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(data, (3, 3), (1, 2))
    expected = np.einsum("chwij,ocijv->ohwv", windows, weights, optimize=True)
    prepared = {step: _prepared(device, step, size, channels, data, weights) for step in STEPS}
    times: dict[str, list[float]] = {step: [] for step in STEPS}
    for steps, *_ in prepared.values():
        steps.seconds(1)
    for _ in range(rounds):
        for step, (steps, *_) in prepared.items():
            times[step].append(steps.seconds(1))
    work = 2 * size * size * channels * channels * 9
    for step, (_, buffers, text) in prepared.items():
        found = np.empty((channels // _PACKED, size, size // _PACKED, _PACKED, _PACKED), np.float32)
        device.read(buffers[-1], found)
        error = np.abs(found.reshape(expected.shape) - expected).max() / np.ptp(expected)
        assert error < 1e-5, f"{step}: results are {error:.1e} from numpy's"
        yield {
            "step": step,
            "gflops": work / median(times[step]) / 1e9,
            "source_bytes": len(text),
            "published": PUBLISHED[step],
            "device": device.name,
        }


def _prepared(
    device: OpenCLDevice, step: str, size: int, channels: int, *arrays: np.ndarray
) -> tuple[Any, list[Any], str]:
    """The launch of a step, the memory that has to stay for it, and its text."""
    function = scheduled(step, size, channels)
    module = function.parent_op()
    assert isinstance(module, ModuleOp)
    text, name = write_source(module), function.sym_name.data
    buffers = [device.allocate(array.nbytes) for array in arrays]
    for array, buffer in zip(arrays, buffers, strict=True):
        device.write(array, buffer)
    buffers.append(device.allocate(4 * size * size * channels))
    grid, block = sizes_of(function, GRID_SIZE), sizes_of(function, BLOCK_SIZE)
    launch = Launch(name, grid, block, tuple(map(BufferOffset, range(len(buffers)))))
    kernels = device.load([KernelSource(text, (name,))])
    return device.prepare(kernels, [launch], buffers), buffers, text


def main() -> int:
    """Print a row for each step."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=56, help="of the image (56)")
    parser.add_argument("--channels", type=int, default=256, help="in and out (256)")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved runs (5)")
    parser.add_argument("--json", type=Path, help="write the results")
    args = parser.parse_args()
    rows = list(measure(args.size, args.channels, args.rounds))
    for row in rows:
        print(
            f"{row['step']:10} {row['gflops']:7.2f} GFLOP/s, {row['source_bytes']} bytes of OpenCL"
        )
    if args.json:
        save(args.json, "python benchmarks/mali_steps.py", rows, size=args.size)
    return 0


if __name__ == "__main__":
    sys.exit(main())
