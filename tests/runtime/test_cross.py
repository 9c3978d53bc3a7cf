"""Models compiled for another CPU, run there (or under qemu) as shared libraries from C."""

from __future__ import annotations

import json
import subprocess
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
from tcopt.backends.llvm.machine.host import host_target, named_target
from tcopt.backends.llvm.machine.linker import find_linker
from tcopt.dialects.intrinsics.table_sums import lookup_of
from tcopt.support.errors import UnsupportedError
from tcopt.support.remarks import collect_remarks

MODELS = {
    "residual": lambda: convolutional.residual_net(20, 8),
    "unet": lambda: convolutional.unet(16, 4),
    "bert": lambda: transformers.bert_block(9, 24, 2),
}
_PROGRAM = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
extern int32_t tcopt_main(void **arguments);
static void *space(size_t size) { return aligned_alloc(64, (size + 63) / 64 * 64 + 64); }
static void *whole(const char *path, size_t size) {
  void *data = space(size);
  FILE *file = fopen(path, "rb");
  if (!file || fread(data, 1, size, file) != size) exit(2);
  return data;
}
int main(void) {
  void *arguments[] = {ARGUMENTS};
  if (tcopt_main(arguments)) return 3;
  FILE *file = fopen("result", "wb");
  OUTPUTS
  return fclose(file);
}
"""


def run_library(library: Path, feeds: dict[str, np.ndarray], runner: list[str]) -> list[np.ndarray]:
    """Return the results of a saved library, called by a C program that `runner` runs."""
    folder, target = library.parent, json.loads(Path(f"{library}.json").read_text())
    arguments: list[str] = []
    results: list[tuple[str, list[int]]] = []
    writes: list[str] = []
    for place, facts in enumerate(target["arguments"]):
        match facts["role"]:
            case "input":
                data = feeds[facts["name"]]
                (folder / f"input{place}").write_bytes(data.tobytes())
                arguments.append(f'whole("input{place}", {data.nbytes})')
            case "output":
                results.append((facts["dtype"], facts["shape"]))
                size = np.dtype(facts["dtype"]).itemsize * int(np.prod(facts["shape"]))
                arguments.append(f"space({size})")
                writes.append(f"fwrite(arguments[{place}], 1, {size}, file);")
            case "check":
                arguments.append(f"space({int(np.prod(facts['shape']))})")
            case "weights":
                arguments.append(f'whole("{library.name}.weights", {facts["bytes"]})')
            case _:
                arguments.append(f"space({facts['bytes']})")
    text = _PROGRAM.replace("ARGUMENTS", ", ".join(arguments)).replace("OUTPUTS", "".join(writes))
    (folder / "main.c").write_text(text)
    linker = find_linker(named_target(library.stem))
    assert linker is not None
    command = [*linker, "main.c", library.name, "-o", "main", "-Wl,-rpath,$ORIGIN"]
    subprocess.run(command, cwd=folder, check=True)
    subprocess.run([*runner, "./main"], cwd=folder, check=True, timeout=300)
    raw = (folder / "result").read_bytes()
    arrays: list[np.ndarray] = []
    for dtype, shape in results:
        size = np.dtype(dtype).itemsize * int(np.prod(shape))
        arrays.append(np.frombuffer(raw[:size], dtype).reshape(shape))
        raw = raw[size:]
    return arrays


@pytest.mark.nightly(every=5)
@pytest.mark.parametrize(
    ("target", "model"),
    [*(("cortex-a72", model) for model in MODELS), ("cortex-a53", "residual"), ("x86-64", "bert")],
)
def test_models_on_other_cpus(target: str, model: str, tmp_path: Path):
    runner = runner_for(target)
    proto = MODELS[model]()
    library = tmp_path / f"{target}.so"
    compiled = tcopt.compile(proto, target=f"cpu:{target}")
    compiled.save(library)
    generator = np.random.default_rng(7)
    feeds = {
        spec.name: _random(generator, spec.shape, np.dtype(spec.dtype)) for spec in compiled.inputs
    }
    expected = _reference(proto, feeds)
    for ours, theirs in zip(run_library(library, feeds, runner), expected, strict=True):
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
    library = tmp_path / f"{target}.so"
    passes = {"before:bit-serial": f"bit-serial{{method={method}}}"}
    with collect_remarks() as remarks:
        tcopt.compile(layer.model(), target=f"cpu:{target}", passes=passes).save(library)
    assert any("done: bit-serial" in str(each) for each in remarks)
    x = layer.inputs()
    (ours,) = run_library(library, {"x": x}, runner)
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
    library = tmp_path / "neoverse-v1.so"
    options = {"precision": "bf16", "accuracy": accuracy}
    with collect_remarks() as remarks:
        compiled = tcopt.compile(proto, target="cpu:neoverse-v1", **options)
    compiled.save(library)
    assert any(str(each).startswith("done") and said in str(each) for each in remarks)
    generator = np.random.default_rng(7)
    feeds = {
        spec.name: _random(generator, spec.shape, np.dtype(spec.dtype)) for spec in compiled.inputs
    }
    (theirs,) = _reference(proto, feeds)
    (ours,) = run_library(library, feeds, runner)
    # Rounded operands change a product by up to 2^-8; see tests/networks/test_precision.py.
    assert np.abs(ours - theirs).max() <= growth * 2 * 2.0**-8 * np.ptp(theirs)


def test_dot_products_of_bytes(tmp_path: Path):
    """Integer layers are exact with Arm's byte dot products, for any zero point."""
    runner = runner_for("neoverse-v1")
    proto = integer_products(131)
    library = tmp_path / "neoverse-v1.so"
    tcopt.compile(proto, target="cpu:neoverse-v1").save(library)
    feeds = byte_feeds(proto, 7)
    expected = run_imported(proto, feeds)
    for ours, exact in zip(run_library(library, feeds, runner), expected, strict=True):
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
    library = tmp_path / "neoverse-v1.so"
    compiled = tcopt.compile(model, target="cpu:neoverse-v1")
    compiled.save(library)
    x = np.arange(300, dtype=np.uint16).astype(np.uint8).reshape(3, 100)
    real = (x.astype(np.float32) - 120) * np.float32(0.05)
    expected = np.minimum(np.rint(1 / (1 + np.exp(-real)) / np.float32(0.004)), 255)
    (ours,) = run_library(library, {"x": x}, runner)
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
    with pytest.raises(UnsupportedError, match="cannot be loaded on this machine") as caught:
        model.run({model.inputs[0].name: x})
    assert ".so" in (caught.value.hint or "")
