"""Convolutions through transformed tiles on devices, against onnxruntime's direct ones."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto

import tcopt
from machines.opencl_device import needs_device
from models.checks import run_reference
from models.light_models import random_inputs
from models.network import Network
from tcopt.backends.named_gpus import named_gpu
from tcopt.backends.ptx.cuda_files import find_ptxas
from tcopt.backends.ptx.ptxas import assemble
from tcopt.dialects.graph import ConstantOp
from tcopt.dialects.graph.contraction.conv import ConvOp
from tcopt.dialects.graph.core.types import like
from tcopt.dialects.graph.packed.winograd import WinogradWeightsOp
from tcopt.dialects.graph.packed.winograd_plain import WinogradPlainConvOp
from tcopt.dialects.target.convolution_costs import ConvLayer
from tcopt.passes.graph.winograd.exact_tiles import estimates
from tcopt.passes.graph.winograd.winograd import allowed_tiles
from tcopt.runtime.device.program import DeviceProgram
from tcopt.support.remarks import Remark, collect_remarks
from tcopt.targets import gpu_blocks

# Largest error over the largest result, for a few dozen channels: see docs/accuracy.md.
ERRORS = {2: 1e-6, 4: 5e-6, 6: 3e-5}


def convolutions() -> ModelProto:
    """Tiles that fit, with an epilogue of two operands; and some that stick out, unpadded, whose
    results are read twice."""
    net = Network("convolutions", seed=3)
    x = net.input("x", [2, 8, 12, 24])
    y = net.add("Relu", net.add("Add", net.conv(x, 8, 8), x))
    y = net.add("Conv", y, net.normal([5, 8, 3, 3], 0.2), kernel_shape=[3, 3])
    y = net.add("Mul", y, net.add("Sigmoid", y))
    return net.model(**{y: [2, 5, 10, 22]})


def one() -> ModelProto:
    """One convolution."""
    net = Network("one", seed=3)
    return net.model(**{net.conv(net.input("x", [1, 8, 12, 12]), 8, 8): [1, 8, 12, 12]})


def compiled(
    model: ModelProto, tile: int, target: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[tcopt.Model, list[Remark]]:
    """A model with all convolutions through tiles of this size, and what was said."""
    passes = [p.having(tile=tile) if p.name == "winograd" else p for p in gpu_blocks._GRAPH]
    monkeypatch.setattr(gpu_blocks, "_GRAPH", tuple(passes))
    with collect_remarks() as remarks:
        made = tcopt.compile(model, target, cache=False)
    return made, remarks


@pytest.mark.nightly
@needs_device
@pytest.mark.parametrize(("tile", "target"), [(2, "opencl:mali"), (4, "opencl")])
def test_results(tile: int, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = convolutions()
    made, remarks = compiled(model, tile, target, monkeypatch)
    assert {r.by for r in remarks if r.message.startswith("scheduled")} == {"gpu-winograd"}
    feeds = random_inputs(model, 0)
    (ours,), (theirs,) = made.run(feeds), run_reference(model, feeds)
    # Errors of two layers add up.
    assert np.abs(ours - theirs).max() <= 2 * ERRORS[tile] * np.abs(theirs).max()


@pytest.mark.nightly
@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas; pip install nvidia-cuda-nvcc-cu12")
def test_registers_hold_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    program = compiled(one(), 6, "cuda:sm_75", monkeypatch)[0].program
    assert isinstance(program, DeviceProgram)
    for arch in ("sm_75", "sm_80", "sm_90"):
        found = [kernel for source in program.sources for kernel in assemble(source.text, arch)[1]]
        assert len(found) == 3
        assert all(kernel.stack == kernel.spill_stores == 0 for kernel in found)


@pytest.mark.parametrize("tile", ERRORS)
@pytest.mark.parametrize("pads", [(1, 1, 1, 1), (0, 2, 1, 0), (0, 0, 0, 0)])
def test_op_is_a_direct_convolution(
    tile: int, pads: tuple[int, ...], rng: np.random.Generator
) -> None:
    x = rng.standard_normal((2, 5, 9, 7), np.float32)
    w = rng.standard_normal((6, 5, 3, 3), np.float32)
    whole = np.ascontiguousarray(w.transpose(2, 3, 1, 0)[None, None])
    (filters,) = WinogradWeightsOp(_constant(whole), tile=tile).evaluate(whole)
    u = filters.reshape(tile + 2, tile + 2, 5, 6)
    conv = WinogradPlainConvOp(_constant(x), _constant(u), tile=tile, pads=pads)
    conv.verify()
    (ours,) = conv.evaluate(x, u)
    direct = ConvOp(_constant(x), _constant(w), pads=pads)
    expected = direct.compute(x.astype(np.float64), w.astype(np.float64)).reshape(direct.shape)
    assert np.abs(ours - expected).max() <= ERRORS[tile] * np.abs(expected).max()


def _constant(array: np.ndarray):
    return ConstantOp.weight("v", like(array)).results[0]


def _gains(layer: ConvLayer, device: str) -> dict[int, float]:
    direct, times = estimates(layer, named_gpu(device).convolution_costs, allowed_tiles("fast", 3))
    return {tile: direct / time for tile, time in times.items()}


def test_more_channels_and_images_gain_more() -> None:
    gains = [max(_gains(ConvLayer(1, 56, 56, c, c, 0), "sm_80").values()) for c in (4, 16, 64, 256)]
    assert gains == sorted(gains) and gains[0] < 0.5 and gains[-1] > 2
    images = [max(_gains(ConvLayer(n, 14, 14, 64, 64, 0), "sm_80").values()) for n in (1, 8, 64)]
    assert images == sorted(images)


def test_weights_of_large_tiles_are_read_in_vain_for_few_outputs() -> None:
    gains = _gains(ConvLayer(1, 7, 7, 512, 512, 0), "sm_75")
    assert gains[2] > gains[4] > gains[6]
