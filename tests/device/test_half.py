"""Layers that round their operands to f16 on devices, against onnxruntime in f32."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto

import tcopt
from models.checks import run_reference
from models.light_models import random_inputs
from models.network import Network
from opencl_device import needs_device
from tcopt.backends.ptx.ptxas import assemble
from tcopt.compiler import pipeline
from tcopt.runtime.device.program import DeviceProgram
from tcopt.support.cuda_files import find_ptxas
from tcopt.support.errors import UnsupportedError

# An f16 has 11 significant bits: rounding moves an operand by up to 2^-12 of it, a product by
# 2^-11. Errors of a sum's terms cancel in part, those of three layers add up: twice the error of
# one product, as a part of the output's range.
TOLERANCE = 2 * 2.0**-11


def layers() -> ModelProto:
    """Two convolutions and a product."""
    net = Network("layers", seed=3)
    x = net.input("image", [1, 4, 9, 12])
    x = net.add("Relu", net.conv(x, 4, 12))
    x = net.add("Relu", net.conv(x, 12, 8))
    rows = net.add("Reshape", x, net.ints(8, 108))
    return net.model(**{net.gemm(rows, 108, 20): [8, 20]})


@needs_device
def test_results() -> None:
    model = layers()
    feeds = random_inputs(model, 0)
    (ours,), (theirs,) = (
        tcopt.compile(model, "opencl", precision="f16").run(feeds),
        run_reference(model, feeds),
    )
    assert ours.dtype == np.float32
    error = np.abs(ours - theirs).max() / np.ptp(theirs)
    # Far less would mean that nothing was rounded.
    assert 2.0**-18 < error <= TOLERANCE


@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas; pip install nvidia-cuda-nvcc-cu12")
def test_kernels_for_cuda_read_halves() -> None:
    program = tcopt.compile(layers(), "cuda:sm_75", precision="f16").program
    single = tcopt.compile(layers(), "cuda:sm_75").program
    assert isinstance(program, DeviceProgram) and isinstance(single, DeviceProgram)
    assert "cvt.f32.f16" in program.source and "cvt.f32.f16" not in single.source
    assert program.weights.nbytes < 0.6 * single.weights.nbytes
    found = [kernel for source in program.sources for kernel in assemble(source.text, "sm_75")[1]]
    assert all(kernel.spill_stores == 0 for kernel in found)


@pytest.mark.parametrize(("target", "precision"), [("cpu", "f16"), ("opencl", "bf16")])
def test_devices_have_precisions_of_their_own(target: str, precision: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{target} has no precision '{precision}'"):
        pipeline(target, precision=precision)


@pytest.mark.parametrize(
    ("target", "message"),
    [("opencl:sm_80", "'sm_80' is reached by cuda"), ("cuda:mali", "'mali' is reached by opencl")],
)
def test_devices_are_reached_in_their_own_way(target: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        pipeline(target)
