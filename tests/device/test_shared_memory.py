"""Scheduled kernels whose threads share memory, on an OpenCL device."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp as KernelOp

from programs.gpu_programs import (
    KERNEL_PASSES,
    LOOP_PASSES,
    Tiling,
    matmul,
    row_sums,
    scheduled,
    share_rows,
    tile_matmul,
)
from tcopt.backends.named_gpus import named_gpu
from tcopt.backends.opencl.source import write_source
from tcopt.compiler.passes import run_passes
from tcopt.dialects import loop
from tcopt.dialects.gpu_kernels import BLOCK_SIZE, GRID_SIZE, sizes_of
from tcopt.dialects.target import TARGET_ATTRIBUTE
from tcopt.runtime.device.interface import KernelSource
from tcopt.runtime.device.opencl import opencl_device
from tcopt.runtime.device.steps import BufferOffset, Launch
from tcopt.support.errors import UnsupportedError

# Both sides add the same float32 products, in different orders.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


def _has_device() -> bool:
    try:
        opencl_device()
    except UnsupportedError:
        return False
    return True


pytestmark = pytest.mark.skipif(not _has_device(), reason="no OpenCL device")


def run(function: loop.FuncOp, *inputs: NDArray, shape: tuple[int, ...]) -> NDArray:
    """The result of a scheduled function that writes its last argument."""
    module = ModuleOp([function], {TARGET_ATTRIBUTE: named_gpu("opencl")})
    run_passes(module, f"{LOOP_PASSES},{KERNEL_PASSES}")
    (kernel,) = module.ops
    assert isinstance(kernel, KernelOp)
    name = kernel.sym_name.data
    device = opencl_device()
    result = np.full(shape, np.nan, np.float32)
    arrays = [*inputs, result]
    buffers = [device.allocate(array.nbytes) for array in arrays]
    for array, buffer in zip(arrays, buffers, strict=True):
        device.write(array, buffer)
    places = tuple(BufferOffset(number) for number in range(len(arrays)))
    launch = Launch(name, sizes_of(kernel, GRID_SIZE), sizes_of(kernel, BLOCK_SIZE), places)
    loaded = device.load([KernelSource(write_source(module), (name,))])
    device.prepare(loaded, [launch], buffers).start()
    device.read(buffers[-1], result)
    return result


def test_tiles_fetched_ahead(rng: np.random.Generator) -> None:
    tiling = Tiling(virtual=(2, 2), double_buffer=True)
    a = rng.standard_normal((19, 10), np.float32)
    b = rng.standard_normal((10, 21), np.float32)
    function = scheduled(matmul(19, 21, 10), lambda sch: tile_matmul(sch, tiling))
    np.testing.assert_allclose(run(function, a, b, shape=(19, 21)), a @ b, **TOLERANCE)


def test_sums_of_all_threads(rng: np.random.Generator) -> None:
    x = rng.standard_normal((5, 70), np.float32)
    function = scheduled(row_sums(5, 70), lambda sch: share_rows(sch, 16, 2))
    np.testing.assert_allclose(run(function, x, shape=(5,)), x.sum(axis=1), **TOLERANCE)
