"""Layers that round their operands to f16 on devices, against onnxruntime in f32."""

from __future__ import annotations

import re
import subprocess
from shutil import which

import numpy as np
import pytest
from onnx import ModelProto

import tcopt
from machines.opencl_device import needs_device
from models.checks import run_reference
from models.light_models import random_inputs
from models.network import Network
from tcopt.backends.ptx.cuda_files import find_ptxas
from tcopt.backends.ptx.ptxas import assemble
from tcopt.compiler import pipeline
from tcopt.runtime.device.opencl import check_extensions
from tcopt.runtime.device.program import DeviceProgram
from tcopt.support.errors import UnsupportedError
from tcopt.support.remarks import collect_remarks

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


@pytest.mark.nightly
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


def test_mali_has_tiles_of_halves_in_registers() -> None:
    """Its memory is the CPU's; it computes with values in `half`, which others only store."""
    with collect_remarks() as remarks:
        program = tcopt.compile(layers(), "mali", precision="f16").program
    chosen = [r.by for r in remarks if r.message.startswith("scheduled")]
    assert chosen.count("gpu-register-tile") == 3 and "gpu-shared-tile" not in chosen
    assert isinstance(program, DeviceProgram)
    assert "#pragma OPENCL EXTENSION cl_khr_fp16 : enable" in program.source
    assert re.search(r"const half4? \w+ = ", program.source) and "__local" not in program.source


CLANG = next(filter(None, map(which, ("clang", "clang-19", "clang-15", "clang-14"))), None)


@pytest.mark.skipif(CLANG is None, reason="no clang")
def test_clang_takes_kernels_of_halves() -> None:
    """Compiled for SPIR-V: no device of this machine needs to have `half`."""
    program = tcopt.compile(layers(), "mali", precision="f16").program
    assert isinstance(program, DeviceProgram) and CLANG is not None
    checks = ("-fsyntax-only", "-Werror", "-Xclang", "-finclude-default-header")
    form = ("-x", "cl", "-cl-std=CL1.2", "-target", "spir64-unknown-unknown")
    for source in program.sources:
        command = [CLANG, *form, *checks, "-"]
        done = subprocess.run(command, input=source.text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_a_device_without_halves_is_named() -> None:
    program = tcopt.compile(layers(), "mali", precision="f16").program
    assert isinstance(program, DeviceProgram)
    check_extensions(program.source, "device", ["cl_khr_fp64", "cl_khr_fp16"])
    with pytest.raises(UnsupportedError) as caught:
        check_extensions(program.source, "the device", ["cl_khr_fp64"])
    assert "cl_khr_fp16" in caught.value.message and "the device" in caught.value.message
    assert caught.value.hint


@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas; pip install nvidia-cuda-nvcc-cu12")
def test_kernels_for_cuda_read_halves() -> None:
    """Where tensor cores do not read them."""
    program = tcopt.compile(layers(), "cuda:sm_70", precision="f16").program
    single = tcopt.compile(layers(), "cuda:sm_70").program
    assert isinstance(program, DeviceProgram) and isinstance(single, DeviceProgram)
    assert "cvt.f32.f16" in program.source and "cvt.f32.f16" not in single.source
    assert program.weights.nbytes < 0.6 * single.weights.nbytes
    found = [kernel for source in program.sources for kernel in assemble(source.text, "sm_70")[1]]
    assert all(kernel.spill_stores == 0 for kernel in found)


def wide_layers() -> ModelProto:
    """A convolution with an activation, and a product with a bias, in whole matrices and not."""
    net = Network("wide_layers", seed=4)
    x = net.input("image", [1, 16, 14, 14])
    x = net.add("Relu", net.conv(x, 16, 40))
    rows = net.add("Reshape", x, net.ints(40, 196))
    return net.model(**{net.gemm(rows, 196, 72): [40, 72]})


CONTRACTIONS = {"gpu-tensor-core-tile", "gpu-shared-tile", "gpu-register-tile"}


def rules_of(target: str, precision: str) -> tuple[set[str], str]:
    """The rules that schedule contractions for a target, and the kernels' source."""
    with collect_remarks() as remarks:
        program = tcopt.compile(wide_layers(), target, precision=precision, cache=False).program
    assert isinstance(program, DeviceProgram)
    found = {r.by for r in remarks if r.message.startswith("scheduled")}
    return found & CONTRACTIONS, program.source


@pytest.mark.parametrize("precision", ["f16", "bf16"])
def test_layers_are_for_tensor_cores(precision: str) -> None:
    rules, source = rules_of("cuda:sm_80", precision)
    assert rules == {"gpu-tensor-core-tile"}
    assert f".f32.{precision}.{precision}.f32" in source and "ldmatrix" in source


@pytest.mark.parametrize(("target", "precision"), [("cuda:sm_80", "f32"), ("opencl", "f16")])
def test_layers_are_for_other_units(target: str, precision: str) -> None:
    rules, source = rules_of(target, precision)
    assert rules == {"gpu-shared-tile"}
    assert "mma" not in source


@pytest.mark.parametrize(("target", "precision"), [("cpu", "f16"), ("opencl", "bf16")])
def test_devices_have_precisions_of_their_own(target: str, precision: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{target} has no precision '{precision}'"):
        pipeline(target, precision=precision)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("opencl:sm_80", "'sm_80' is a machine of target cuda"),
        ("cuda:mali", "'mali' is a machine of target opencl"),
    ],
)
def test_devices_are_reached_in_their_own_way(target: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        pipeline(target)
