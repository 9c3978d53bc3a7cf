"""Quantised networks on devices: bytes multiplied and added four at a time, exactly."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto

import tcopt
from machines.opencl_device import needs_device
from models.checks import run_imported
from models.light_models import random_inputs
from models.network import Network
from models.quantized import output_step, quantized
from tcopt.backends.ptx.cuda_files import find_ptxas
from tcopt.backends.ptx.ptxas import assemble
from tcopt.runtime.device.program import DeviceProgram
from tcopt.support.remarks import collect_remarks


def layers() -> ModelProto:
    """Products of matrices whose rows are not whole groups, and a depthwise convolution."""
    net = Network("layers", seed=3)
    x = net.input("image", [1, 4, 9, 9])
    y = net.add("Sigmoid", net.conv(x, 4, 12))
    z = net.add("Relu", net.conv(y, 12, 12, groups=12))
    z = net.add("Relu", net.conv(z, 12, 6, 1))
    rows = net.add("Reshape", z, net.ints(18, 27))
    rows = net.add("Relu", net.gemm(rows, 27, 48))
    return net.model(**{net.gemm(rows, 48, 10): [18, 10]})


def compiled(model: ModelProto, target: str) -> tuple[tcopt.Model, list[str]]:
    """A model, and what became of its contractions."""
    with collect_remarks() as remarks:
        made = tcopt.compile(model, target)
    return made, [r.message for r in remarks if r.by == "pack-dots" and not r.missed]


@pytest.mark.nightly
@needs_device
def test_results_are_those_of_exact_integers() -> None:
    """Scales multiply in another order than in the definition, which rounds rarely by a step."""
    model = quantized(layers(), "QDQ", signed=True)
    feeds = random_inputs(model, 7)
    made, dots = compiled(model, "opencl")
    assert len(dots) == 4
    (ours,), (exact,) = made.run(feeds), run_imported(model, feeds)
    assert np.abs(ours - exact).max() <= 1.01 * output_step(model)


def rows() -> ModelProto:
    """Products of many rows: of whole parts of a sum, and of a rest."""
    net = Network("rows", seed=3)
    x = net.add("Relu", net.gemm(net.input("x", [70, 48]), 48, 36))
    return net.model(**{net.gemm(x, 36, 50): [70, 50]})


@pytest.mark.nightly
@needs_device
def test_products_of_many_rows_share_operands() -> None:
    model = quantized(rows(), "QDQ")
    feeds = random_inputs(model, 7)
    with collect_remarks() as remarks:
        made = tcopt.compile(model, "opencl")
    chosen = [r.by for r in remarks if r.message.startswith("scheduled")]
    assert chosen.count("gpu-shared-tile") == 2
    (ours,), (exact,) = made.run(feeds), run_imported(model, feeds)
    assert np.abs(ours - exact).max() <= 1.01 * output_step(model)


@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas; pip install nvidia-cuda-nvcc-cu12")
def test_kernels_for_cuda_have_dot_products() -> None:
    made, dots = compiled(quantized(layers(), "QDQ"), "cuda:sm_75")
    program = made.program
    assert isinstance(program, DeviceProgram)
    with_dots = [source for source in program.sources if "dp4a." in source.text]
    assert len(with_dots) == len(dots) == 4
    assert "dp4a.u32.s32" in program.source
    found = [kernel for source in with_dots for kernel in assemble(source.text, "sm_75")[1]]
    assert all(kernel.spill_stores == 0 and kernel.shared <= 48 << 10 for kernel in found)
