"""The kernel level against MLIR 19: it parses our text, and its lowering gives equal results."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from itertools import count

import llvmlite.binding as llvm
import numpy as np
import pytest
from xdsl.context import Context

from programs.kernel_modules import aligned, parse_kernel
from tcopt.backends.llvm.jit import compile_module
from tcopt.backends.llvm.machine.host import host_target
from tcopt.backends.llvm.machine.machine import parse_llvm, target_machine
from tcopt.passes.kernel.math.expand_math import ExpandMathPass
from tcopt.passes.kernel.registers.promote_registers import PromoteRegistersPass

pytestmark = pytest.mark.skipif(
    shutil.which("mlir-opt-19") is None or shutil.which("mlir-translate-19") is None,
    reason="needs mlir-opt-19 and mlir-translate-19",
)

_KERNEL = """
func.func @k(%a: memref<8x32xf32>, %b: memref<8x32xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %z = arith.constant dense<0.0> : vector<16xf32>
  %acc = memref.alloca() : memref<16xf32>
  %m = vector.create_mask %c5 : vector<16xi1>
  %step = vector.step : vector<16xindex>
  %idx = arith.index_cast %step : vector<16xindex> to vector<16xi32>
  scf.for %i = %c0 to %c8 step %c1 {
    vector.store %z, %acc[%c0] : memref<16xf32>, vector<16xf32>
    scf.for %j = %c0 to %c16 step %c1 {
      %s = memref.load %a[%i, %j] : memref<8x32xf32>
      %v = vector.broadcast %s : f32 to vector<16xf32>
      %w = vector.load %a[%i, %c16] : memref<8x32xf32>, vector<16xf32>
      %o = vector.load %acc[%c0] : memref<16xf32>, vector<16xf32>
      %n = vector.fma %v, %w, %o : vector<16xf32>
      vector.store %n, %acc[%c0] : memref<16xf32>, vector<16xf32>
    }
    %r = vector.load %acc[%c0] : memref<16xf32>, vector<16xf32>
    %e = math.exp %r : vector<16xf32>
    %one = arith.constant dense<1.0> : vector<16xf32>
    %f = arith.maximumf %r, %one : vector<16xf32>
    %big = arith.cmpf ogt, %r, %one : vector<16xf32>
    %sel = arith.select %big, %f, %e : vector<16xi1>, vector<16xf32>
    %g = vector.gather %a[%i, %c0][%idx], %m, %sel
      : memref<8x32xf32>, vector<16xi32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
    %x = vector.extract_strided_slice %g {offsets = [4], sizes = [4], strides = [1]}
      : vector<16xf32> to vector<4xf32>
    %y = vector.insert_strided_slice %x, %g {offsets = [0], strides = [1]}
      : vector<4xf32> into vector<16xf32>
    vector.store %y, %b[%i, %c0] : memref<8x32xf32>, vector<16xf32>
    %total = vector.reduction <add>, %r : vector<16xf32> into f32
    memref.store %total, %b[%i, %c16] : memref<8x32xf32>
  }
  func.return
}
"""

_NUMBERS = count()
_LOWERING = (
    "--convert-vector-to-scf",
    "--expand-strided-metadata",
    "--convert-scf-to-cf",
    "--convert-vector-to-llvm",
    "--convert-math-to-llvm",
    "--convert-arith-to-llvm",
    "--finalize-memref-to-llvm=use-generic-functions=0",
    "--convert-func-to-llvm=use-bare-ptr-memref-call-conv=1",
    "--convert-cf-to-llvm",
    "--reconcile-unrealized-casts",
)


def _run(*command: str, input: str) -> str:
    done = subprocess.run(command, input=input, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _through_mlir(text: str, a: np.ndarray, b: np.ndarray) -> None:
    """Lower with MLIR's passes and run the result with LLVM's linker and our JIT."""
    lowered = _run("mlir-opt-19", *_LOWERING, input=text)
    translated = _run("mlir-translate-19", "--mlir-to-llvmir", input=lowered)
    module = parse_llvm(translated)
    data = target_machine(host_target()).emit_object(module)
    from tcopt.backends.llvm.jit_link import _jit
    from tcopt.backends.llvm.runtime import symbol_address

    library = llvm.JITLibraryBuilder().add_object_img(data).export_symbol("k")
    for name in ("expf", "memset", "memcpy"):
        library.import_symbol(name, symbol_address(name))
    tracker = library.link(_jit(), f"mlir_reference{next(_NUMBERS)}")
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(tracker["k"])(
        a.ctypes.data, b.ctypes.data
    )


@pytest.mark.parametrize(
    "passes", [[], [PromoteRegistersPass()], [PromoteRegistersPass(), ExpandMathPass()]]
)
def test_mlir_lowers_our_text_to_the_same_numbers(rng, passes):
    module = parse_kernel(_KERNEL)
    for each in passes:
        each.apply(Context(), module)
    module.verify()
    a, ours, theirs = (aligned((8, 32)) for _ in range(3))
    a[:] = rng.standard_normal((8, 32)) * 0.3
    ours[:] = theirs[:] = 0
    compile_module(module).function("k")(a, ours)
    _through_mlir(str(module), a, theirs)
    np.testing.assert_allclose(ours, theirs, rtol=2e-7)


def test_mlir_prints_what_we_read_again():
    """The output of mlir-opt parses here and has the same meaning."""
    module = parse_kernel(_KERNEL)
    printed = _run("mlir-opt-19", input=str(module))
    assert str(parse_kernel(printed)).count("\n") == str(module).count("\n")
