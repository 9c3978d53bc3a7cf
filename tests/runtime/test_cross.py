"""Models compiled for another CPU, run there (or under qemu) by C programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import onnxruntime
import pytest
from onnx import ModelProto

import tcopt
from machines.other_machines import runner_for
from models import convolutional, transformers
from models.bit_models import Layer
from models.checks import run_imported
from models.integer_products import byte_feeds, integer_products
from models.kits import Kit
from tcopt.backends.llvm.machine.host import host_target, named_target
from tcopt.dialects.intrinsics.table_sums import lookup_of
from tcopt.support.errors import UnsupportedError
from tcopt.support.remarks import collect_remarks

Feeds = dict[str, np.ndarray]
Results = list[np.ndarray]

MODELS = {
    "residual": lambda: convolutional.residual_net(20, 8),
    "unet": lambda: convolutional.unet(16, 4),
    "bert": lambda: transformers.bert_block(9, 24, 2),
}


def run_there(model: tcopt.Model, feeds: Feeds, folder: Path, runner: list[str]) -> Results:
    """Return the results of a C program that runs a model in an emulator."""
    return Kit.of(model, folder).run(feeds, runner=runner)


@pytest.mark.nightly(every=5)
@pytest.mark.parametrize(
    ("target", "model"),
    [*(("cortex-a72", model) for model in MODELS), ("cortex-a53", "residual"), ("x86-64", "bert")],
)
def test_models_on_other_cpus(target: str, model: str, tmp_path: Path):
    runner = runner_for(target)
    proto = MODELS[model]()
    compiled = tcopt.compile(proto, target=f"cpu:{target}")
    generator = np.random.default_rng(7)
    feeds = {
        spec.name: _random(generator, spec.shape, np.dtype(spec.dtype)) for spec in compiled.inputs
    }
    expected = _reference(proto, feeds)
    for ours, theirs in zip(run_there(compiled, feeds, tmp_path, runner), expected, strict=True):
        # f32 sums in another order, over a few layers.
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5 * np.abs(theirs).max())


@pytest.mark.nightly(every=6)
@pytest.mark.parametrize("target", ["cortex-a53", "haswell", "x86-64"])
@pytest.mark.parametrize("numbers", [(-1, 1), (-1, 0, 1)], ids=["signs", "ternary"])
@pytest.mark.parametrize("method", ["popcount", "lookup"])
def test_few_bits(target: str, numbers: tuple[int, ...], method: str, tmp_path: Path):
    """Layers with 2-bit data and 1- or 2-bit weights, on CPUs with other popcount or table
    instructions."""
    if method == "lookup" and lookup_of(named_target(target).capabilities) is None:
        pytest.skip(f"{target} does not look bytes up in registers")
    runner = runner_for(target)
    layer = Layer(shape=(1, 36, 5, 6), outputs=20, numbers=numbers)
    passes = {"before:bit-serial": f"bit-serial{{method={method}}}"}
    with collect_remarks() as remarks:
        compiled = tcopt.compile(layer.model(), target=f"cpu:{target}", passes=passes)
    assert any("done: bit-serial" in str(each) for each in remarks)
    x = layer.inputs()
    (ours,) = run_there(compiled, {"x": x}, tmp_path, runner)
    np.testing.assert_allclose(ours, layer.expected(x), rtol=1e-5, atol=1e-3)


# Error limit relative to direct convolutions: see test_winograd_rounded.py.
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("proto", "accuracy", "growth", "said"),
    [
        (convolutional.residual_net(64, 32), "default", 1, "terms in groups of 2"),
        (convolutional.residual_net(64, 32), "fast", 6, "F(4x4) in bf16, 3x3"),
        (transformers.bert_block(40), "default", 1, "computed panels"),
    ],
)
def test_dot_products_of_bf16(
    proto: ModelProto, accuracy: str, growth: int, said: str, tmp_path: Path
):
    """Convolutions and products run by a CPU's bf16 instructions."""
    runner = runner_for("neoverse-v1")
    options = {"precision": "bf16", "accuracy": accuracy}
    with collect_remarks() as remarks:
        compiled = tcopt.compile(proto, target="cpu:neoverse-v1", **options)
    assert any(str(each).startswith("done") and said in str(each) for each in remarks)
    generator = np.random.default_rng(7)
    feeds = {
        spec.name: _random(generator, spec.shape, np.dtype(spec.dtype)) for spec in compiled.inputs
    }
    (theirs,) = _reference(proto, feeds)
    (ours,) = run_there(compiled, feeds, tmp_path, runner)
    # Rounded operands change a product by up to 2^-8; see tests/networks/test_precision.py.
    assert np.abs(ours - theirs).max() <= growth * 2 * 2.0**-8 * np.ptp(theirs)


def test_dot_products_of_bytes(tmp_path: Path):
    """Integer layers are exact with Arm's byte dot products, for any zero point."""
    runner = runner_for("neoverse-v1")
    proto = integer_products(131)
    compiled = tcopt.compile(proto, target="cpu:neoverse-v1")
    feeds = byte_feeds(proto, 7)
    expected = run_imported(proto, feeds)
    for ours, exact in zip(run_there(compiled, feeds, tmp_path, runner), expected, strict=True):
        np.testing.assert_array_equal(ours, exact)


def test_tables_of_bytes(tmp_path: Path):
    """Table lookups by Arm's instructions match numpy."""
    runner = runner_for("neoverse-v1")
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
        f (uint8[3, 100] x) => (uint8[3, 100] y)
        <float s = {0.05}, uint8 z = {120}, float t = {0.004}, uint8 none = {0}> {
          r = DequantizeLinear (x, s, z)
          m = Sigmoid (r)
          y = QuantizeLinear (m, t, none)
        }""")
    compiled = tcopt.compile(model, target="cpu:neoverse-v1")
    x = np.arange(300, dtype=np.uint16).astype(np.uint8).reshape(3, 100)
    real = (x.astype(np.float32) - 120) * np.float32(0.05)
    expected = np.minimum(np.rint(1 / (1 + np.exp(-real)) / np.float32(0.004)), 255)
    (ours,) = run_there(compiled, {"x": x}, tmp_path, runner)
    np.testing.assert_array_equal(ours, expected)


def _random(generator: np.random.Generator, shape: tuple, dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "i":
        return generator.integers(0, 5, shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)


def _reference(proto: ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    return session.run(None, feeds)


def test_a_model_for_another_machine_does_not_run():
    other = "cortex-a72" if host_target().triple.startswith("x86_64") else "haswell"
    model = tcopt.compile(convolutional.residual_net(8, 4), target=f"cpu:{other}")
    x = np.zeros(model.inputs[0].shape, np.float32)
    with pytest.raises(UnsupportedError, match="cannot be loaded on this machine"):
        model.run({model.inputs[0].name: x})


def test_code_for_several_cpus(tmp_path: Path):
    """A library has code for CPUs with byte dot products and without them."""
    runner = runner_for("neoverse-v1")
    proto = integer_products(131)
    levels = [tcopt.compile(proto, target=f"cpu:{cpu}") for cpu in ("cortex-a53", "neoverse-v1")]
    feeds = byte_feeds(proto, 7)
    expected = run_imported(proto, feeds)
    kit = Kit.of(levels, tmp_path)
    for cpu in ("max", "cortex-a53"):
        emulator = [cpu if each == "max" else each for each in runner]
        for ours, exact in zip(kit.run(feeds, runner=emulator), expected, strict=True):
            np.testing.assert_array_equal(ours, exact)
