"""Loading and calling modules, objects and libraries, targets, and errors."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

from programs.kernel_modules import parse_kernel
from tcopt.backends.llvm.jit import compile_module
from tcopt.backends.llvm.machine.host import (
    default_target,
    host_target,
    named_target,
    runnable_targets,
)
from tcopt.backends.llvm.module import emit_module
from tcopt.backends.llvm.objects import emit_assembly, emit_library, emit_object, link_library
from tcopt.dialects.target import CpuTargetAttr
from tcopt.support.errors import BackendError, InputError, UnsupportedError
from tcopt.targets.cpu import MACHINES

_MODEL = """
func.func private @twice(%a: memref<2x16xf32>, %b: memref<2x16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  "scf.parallel"(%c0, %c2, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %v = vector.load %a[%i, %c0] : memref<2x16xf32>, vector<16xf32>
    %w = arith.addf %v, %v : vector<16xf32>
    vector.store %w, %b[%i, %c0] : memref<2x16xf32>, vector<16xf32>
    scf.reduce
  }) {grain = 1 : index} : (index, index, index) -> ()
  func.return
}
func.func @main(%x: memref<2x16xf32>, %y: memref<2x16xf32>, %w: memref<256xi8>) {
  %c64 = arith.constant 64 : index
  %t = memref.view %w[%c64][] : memref<256xi8> to memref<2x16xf32>
  func.call @twice(%x, %t) : (memref<2x16xf32>, memref<2x16xf32>) -> ()
  func.call @twice(%t, %y) : (memref<2x16xf32>, memref<2x16xf32>) -> ()
  func.return
}
"""


@pytest.fixture
def arrays(rng):
    x = rng.standard_normal((2, 16)).astype(np.float32)
    return x, np.zeros_like(x), np.zeros(256, np.int8)


def test_main_calls_kernels_in_a_workspace(arrays):
    x, y, workspace = arrays
    loaded = compile_module(parse_kernel(_MODEL))
    loaded.function()(x, y, workspace)
    np.testing.assert_array_equal(y, 4 * x)
    assert loaded.functions == ("twice", "main")


def test_kernels_can_be_called_alone(arrays):
    x, y, _ = arrays
    compile_module(parse_kernel(_MODEL)).function("twice")(x, y)
    np.testing.assert_array_equal(y, 2 * x)


def test_c_entry_point_takes_an_array_of_pointers(arrays):
    loaded = compile_module(parse_kernel(_MODEL))
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(loaded.entry())
    pointers = (ctypes.c_void_p * 3)(*(a.ctypes.data for a in arrays))
    assert entry(ctypes.addressof(pointers)) == 0
    np.testing.assert_array_equal(arrays[1], 4 * arrays[0])


def test_function_stays_usable_after_its_module_variable_is_gone(arrays):
    x, y, _ = arrays
    function = compile_module(parse_kernel(_MODEL)).function("twice")
    for _ in range(3):
        compile_module(parse_kernel(_MODEL))
    function(x, y)
    np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.parametrize(
    ("replacement", "message"),
    [
        (np.zeros((2, 15), np.float32), r"argument 0 of twice has shape \(2, 15\), expected"),
        (np.zeros((2, 16), np.float64), "has dtype float64, expected float32"),
        (np.zeros((16, 2), np.float32).T, "not contiguous"),
        ([1, 2], "is a list, not a numpy array"),
    ],
)
def test_wrong_arguments_are_named(arrays, replacement, message):
    function = compile_module(parse_kernel(_MODEL)).function("twice")
    with pytest.raises(InputError, match=message):
        function(replacement, arrays[1])


def test_wrong_number_of_arguments(arrays):
    function = compile_module(parse_kernel(_MODEL)).function("twice")
    with pytest.raises(InputError, match="takes 2 arguments, got 1"):
        function(arrays[0])


def test_unknown_and_private_functions():
    loaded = compile_module(parse_kernel(_MODEL))
    with pytest.raises(InputError, match=r"no function 'nothing'.*twice, main"):
        loaded.function("nothing")
    with pytest.raises(InputError, match="private"):
        loaded.entry("twice")
    with pytest.raises(InputError, match="at least 1"):
        loaded.threads = 0


def test_calls_to_missing_c_functions_are_an_error():
    text = """
    func.func private @no_such_function(f32) -> f32
    func.func @k(%x: f32) -> f32 {
      %r = func.call @no_such_function(%x) : (f32) -> f32
      func.return %r : f32
    }
    """
    with pytest.raises(BackendError, match="'no_such_function'"):
        compile_module(parse_kernel(text))


def test_calls_to_c_functions():
    text = """
    func.func private @hypotf(f32, f32) -> f32
    func.func @k(%x: f32, %y: f32) -> f32 {
      %r = func.call @hypotf(%x, %y) : (f32, f32) -> f32
      func.return %r : f32
    }
    """
    assert compile_module(parse_kernel(text)).function("k")(3.0, 4.0) == 5.0


def test_kernels_may_have_the_names_of_c_functions():
    text = """
    func.func private @expf(%x: f32) -> f32 {
      %r = math.exp %x : f32
      func.return %r : f32
    }
    """
    assert compile_module(parse_kernel(text)).function("expf")(0.0) == 1.0


def test_ops_without_a_rule_are_named():
    text = """
    func.func @k(%x: f32) {
      "vector.print"(%x) : (f32) -> ()
      func.return
    }
    """
    with pytest.raises(UnsupportedError, match=r"'vector\.print': no LLVM emit rule"):
        emit_module(parse_kernel(text))


@pytest.mark.parametrize("name", MACHINES)
def test_named_targets_give_objects(name):
    module, target = parse_kernel(_MODEL), named_target(name)
    data = emit_object(module, target)
    assert data[:4] == b"\x7fELF"
    assembly = emit_assembly(module, target)
    assert ("zmm" in assembly) == (target.vector_bits == 512)
    assert ("ymm" in assembly) == (target.vector_bits == 256)


def test_module_may_name_its_target():
    target = CpuTargetAttr.of(MACHINES["cortex-a72"])
    text = f"module attributes {{tcopt.target = {target}}} {{ {_MODEL} }}"
    assert "ldp\tq" in emit_assembly(parse_kernel(text))


def test_unknown_targets_are_errors():
    with pytest.raises(InputError, match="unknown CPU target 'z80'"):
        named_target("z80")


def test_the_default_target_can_be_named(monkeypatch):
    first, *_ = runnable_targets()
    monkeypatch.setenv("TCOPT_CPU", first)
    assert default_target() == named_target("host") == named_target(first)
    monkeypatch.setenv("TCOPT_CPU", "z80")
    with pytest.raises(InputError, match=r"TCOPT_CPU names an unknown CPU 'z80'.*x86-64"):
        default_target()
    other = "cortex-a72" if host_target().triple.startswith("x86_64") else "haswell"
    monkeypatch.setenv("TCOPT_CPU", other)
    with pytest.raises(InputError, match=rf"TCOPT_CPU names {other}.*cannot run.*{first}"):
        default_target()
    monkeypatch.delenv("TCOPT_CPU")
    assert default_target() == host_target()


def test_host_target_verifies():
    target = host_target()
    CpuTargetAttr.of(target).verify()
    assert target.vector_bits >= 128
    assert target.cores >= 1


_C_PROGRAM = """
#include <stdint.h>
#include <stdio.h>
int32_t tcopt_main(void **);
int main(void) {
  float x[32], y[32]; char w[256];
  for (int i = 0; i < 32; i++) x[i] = i;
  void *args[3] = {x, y, w};
  int status = tcopt_main(args);
  printf("%d %g %g", status, y[1], y[31]);
  return 0;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("kind", ["library", "object"])
def test_c_programs_can_link_the_result(tmp_path, kind):
    module = parse_kernel(_MODEL)
    (tmp_path / "main.c").write_text(_C_PROGRAM)
    built = tmp_path / ("libmodel.so" if kind == "library" else "model.o")
    if kind == "library":
        emit_library(module, built)
    else:
        built.write_bytes(emit_object(module))
    program = tmp_path / "program"
    subprocess.run(["cc", "-o", program, tmp_path / "main.c", built, "-lm"], check=True)
    environment = {"LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([program], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "0 4 124"


def test_libraries_export_only_the_entry_points(tmp_path):
    if shutil.which("cc") is None or shutil.which("nm") is None:
        pytest.skip("needs a C compiler and nm")
    path = tmp_path / "libmodel.so"
    emit_library(parse_kernel(_MODEL), path)
    listed = subprocess.run(["nm", "-D", path], capture_output=True, text=True, check=True).stdout
    assert "T tcopt_main" in listed
    assert "tcopt.twice" not in listed


def test_a_missing_linker_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendError, match=r"needs a C compiler.*install cc or gcc"):
        link_library([b""], tmp_path / "x.so")
