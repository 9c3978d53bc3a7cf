"""PTX of whole models through NVIDIA's assembler, for three generations of devices."""

from __future__ import annotations

import subprocess
from functools import cache

import onnx.parser
import pytest
from onnx import ModelProto
from xdsl.dialects.builtin import ModuleOp

import tcopt
from models import convolutional, transformers
from models.quantized import quantized
from tcopt.backends.ptx.cuda_files import LIBDEVICE_ENVIRONMENT, PTXAS_ENVIRONMENT, find_ptxas
from tcopt.backends.ptx.ptxas import KernelResources, assemble
from tcopt.backends.ptx.source import write_ptx
from tcopt.compiler import lower, pipeline
from tcopt.dialects.target import TARGET_ATTRIBUTE
from tcopt.frontends.onnx.importer import import_model
from tcopt.runtime.device.program import DeviceProgram
from tcopt.support.errors import InputError, UnsupportedError
from tcopt.targets import cuda, opencl
from tcopt.tools import tcopt_compile

needs_ptxas = pytest.mark.skipif(
    find_ptxas() is None, reason="no ptxas; pip install nvidia-cuda-nvcc-cu12"
)

NETWORKS = {
    "residual_net": lambda: convolutional.residual_net(12, 5),
    "bert_block": lambda: transformers.bert_block(11, 40, 5),
    "quantized_net": lambda: quantized(convolutional.residual_net(12, 5), "QDQ"),
}
ARCHITECTURES = sorted(cuda.DEVICES)


@cache
def _known_architectures() -> str:
    ptxas = find_ptxas()
    return subprocess.run([str(ptxas), "--help"], capture_output=True, text=True).stdout


@cache
def _network(name: str) -> ModuleOp:
    return _lowered(NETWORKS[name]())


def _lowered(model: ModelProto) -> ModuleOp:
    module = import_model(model)
    lower(module, pipeline("cuda"))
    return module


def _assembled(ptx: str, arch: str) -> list[KernelResources]:
    if f"'{arch}'" not in _known_architectures():
        pytest.skip(f"this ptxas does not know {arch}")
    return assemble(ptx, arch)[1]


@pytest.mark.nightly(every=9)
@needs_ptxas
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_networks_assemble(name: str, arch: str) -> None:
    ptx = write_ptx(_network(name), cuda.DEVICES[arch])
    assert f".target {arch}\n" in ptx
    kernels = _assembled(ptx, arch)
    assert len(kernels) == ptx.count(".visible .entry")
    for kernel in kernels:
        assert 0 < kernel.registers <= 255
        assert kernel.spill_stores == kernel.spill_loads == 0


FUNCTIONS = """<ir_version: 10, opset_import: ["" : 21]>
zoo (float[5, 7] a, float[5, 7] b, double[7] d, int32[7] n) =>
    (float[5, 7] y, double[7] z, int32[7] m, bool[5, 7] t) {
  e = Exp(a)  l = Log(e)  g = Sigmoid(b)  h = Tanh(l)  f = Erf(g)  s = Sqrt(e)  p = Pow(s, g)
  fl = Floor(b)  r = Round(a)  x = Max(a, b)  i = Min(fl, r)  q = Div(x, p)  t = Less(q, i)
  w = Where(t, q, f)  v = Mod <fmod = 1> (w, p)  as = Asin(g)  y = Add(v, as)  z = Exp(d)
  c = Constant <value_int = -5> ()  k = Cast <to = 6> (c)  o = Div(n, k)  u = Mod(n, k)
  m = Add(o, u)
}"""


@needs_ptxas
def test_functions_and_choices() -> None:
    """One kernel with every kind of scalar arithmetic; functions without a polynomial are linked
    in."""
    ptx = write_ptx(_lowered(onnx.parser.parse_model(FUNCTIONS)))
    assert ".extern" not in ptx
    assert _assembled(ptx, "sm_80")


ORDERS = """<ir_version: 10, opset_import: ["" : 21]>
orders (float[8, 100] x, double[2, 40] d) => (float[8, 60] v, int64[8, 60] i, double[2, 40] w)
  <int64[1] k = {60}, int64[1] l = {40}> { v, i = TopK(x, k)  w, j = TopK(d, l) }"""


@needs_ptxas
@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_sorts_keep_their_places_in_local_memory(arch: str) -> None:
    """If ptxas unrolled a loop over them, it would run out of registers."""
    kernels = _assembled(write_ptx(_orders(), cuda.DEVICES[arch]), arch)
    sorts = [kernel for kernel in kernels if kernel.stack]
    assert len(sorts) == 2
    assert all(kernel.registers <= 64 and kernel.spill_stores == 0 for kernel in sorts)


@cache
def _orders() -> ModuleOp:
    return _lowered(onnx.parser.parse_model(ORDERS))


def test_missing_libdevice_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIBDEVICE_ENVIRONMENT, "/nowhere")
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
arcs (float[8] x) => (float[8] y) { a = Tan(x)  y = Sinh(a) }""")
    module = _lowered(model)
    with pytest.raises(UnsupportedError, match="kernels call sinhf, tanf, but NVIDIA's libdevice"):
        write_ptx(module)


def test_missing_ptxas_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PTXAS_ENVIRONMENT, "/nowhere")
    with pytest.raises(UnsupportedError, match="ptxas is not installed"):
        assemble("", "sm_80")


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_named_targets_make_ptx(arch: str) -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
small (float[4, 8] x) => (float[4, 8] y) { y = Relu(x) }""")
    module = import_model(model)
    lower(module, pipeline(f"cuda:{arch}"))
    assert f".target {arch}\n" in write_ptx(module)


def test_other_devices_take_no_ptx() -> None:
    module = ModuleOp([], {TARGET_ATTRIBUTE: opencl.DEVICES["opencl"]})
    with pytest.raises(InputError, match="does not support PTX"):
        write_ptx(module)


def test_buffers_of_a_model_are_aligned() -> None:
    """Buffers of the memory plan are aligned to 64 bytes; a slice, which may start anywhere, to its
    size."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
small (float[4, 8] x) => (float[4, 8] y) { y = Relu(x) }""")
    compiled = tcopt.compile(model, "cuda:sm_80", cache=False).program
    assert isinstance(compiled, DeviceProgram)
    assert compiled.source.count(".ptr .global .align 64 ") == 2
    odd = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
odd (float[3, 6] x) => (float[3, 6] y) { y = Relu(x) }""")
    compiled = tcopt.compile(odd, "cuda:sm_80", cache=False).program
    assert isinstance(compiled, DeviceProgram)
    assert compiled.source.count(".ptr .global .align 8 ") == 2


@needs_ptxas
def test_command_lists_what_kernels_take(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
small (float[4, 8] x) => (float[4, 8] y) { y = Relu(x) }""")
    path = tmp_path / "small.onnx"
    path.write_bytes(model.SerializeToString())
    assert tcopt_compile.main([str(path), "--target", "cuda:sm_80", "--ptxas"]) == 0
    said = capsys.readouterr().out
    assert "1 kernels for sm_80, 0 of them spill registers" in said and "relu" in said
    assert tcopt_compile.main([str(path), "--ptxas"]) == 1
    assert "ptxas only assembles kernels for CUDA" in capsys.readouterr().err
