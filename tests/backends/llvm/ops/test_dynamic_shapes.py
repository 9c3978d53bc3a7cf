"""Buffers whose extents and strides are arguments of a kernel."""

from __future__ import annotations

import numpy as np
import pytest

from programs.kernel_modules import parse_kernel
from tcopt.backends.llvm.jit import LoadedModule, compile_module
from tcopt.support.errors import UnsupportedError

SIZES = (0, 1, 3, 7, 16)

ROWS = """
func.func @k(%x: memref<?x5xf32>, %y: memref<?x5xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  "scf.parallel"(%c0, %n, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    scf.for %j = %c0 to %c5 step %c1 {
      %a = memref.load %x[%i, %j] : memref<?x5xf32>
      %b = arith.addf %a, %a : f32
      memref.store %b, %y[%i, %j] : memref<?x5xf32>
    }
    scf.reduce
  }) : (index, index, index) -> ()
  func.return
}
"""

TRANSPOSE = """
func.func @k(%x: memref<?x?xf32>, %y: memref<?x?xf32>, %n: index, %m: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = memref.reinterpret_cast %x to offset: [0], sizes: [%n, %m], strides: [%m, 1]
    : memref<?x?xf32> to memref<?x?xf32, strided<[?, 1]>>
  %b = memref.reinterpret_cast %y to offset: [0], sizes: [%m, %n], strides: [%n, 1]
    : memref<?x?xf32> to memref<?x?xf32, strided<[?, 1]>>
  "scf.parallel"(%c0, %n, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    scf.for %j = %c0 to %m step %c1 {
      %v = memref.load %a[%i, %j] : memref<?x?xf32, strided<[?, 1]>>
      memref.store %v, %b[%j, %i] : memref<?x?xf32, strided<[?, 1]>>
    }
    scf.reduce
  }) : (index, index, index) -> ()
  func.return
}
"""


@pytest.fixture(scope="module")
def rows() -> LoadedModule:
    return compile_module(parse_kernel(ROWS))


@pytest.fixture(scope="module")
def transpose() -> LoadedModule:
    return compile_module(parse_kernel(TRANSPOSE))


@pytest.mark.parametrize("n", SIZES)
def test_a_dynamic_leading_extent(rows, rng, n):
    x, y = rng.standard_normal((n, 5)).astype(np.float32), np.zeros((n, 5), np.float32)
    rows.function("k")(x, y, n)
    np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("m", (1, 4, 9))
def test_strides_are_arguments(transpose, rng, n, m):
    """The body of the parallel loop is a function of its own, which captures the strides."""
    x, y = rng.standard_normal((n, m)).astype(np.float32), np.zeros((m, n), np.float32)
    transpose.function("k")(x, y, n, m)
    np.testing.assert_array_equal(y, x.T)


def test_strides_multiply_sums_of_indices(rng):
    """`x[i + 2, j]`, where the row length is `n + 1`."""
    text = """
    func.func @k(%x: memref<?x?xf32>, %y: memref<3x4xf32>, %n: index) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c3 = arith.constant 3 : index
      %c4 = arith.constant 4 : index
      %m = arith.addi %n, %c1 : index
      %a = memref.reinterpret_cast %x to offset: [0], sizes: [%c4, %m], strides: [%m, 1]
        : memref<?x?xf32> to memref<?x?xf32, strided<[?, 1]>>
      scf.for %i = %c0 to %c3 step %c1 {
        %i2 = arith.addi %i, %c2 : index
        scf.for %j = %c0 to %c4 step %c1 {
          %v = memref.load %a[%i2, %j] : memref<?x?xf32, strided<[?, 1]>>
          memref.store %v, %y[%i, %j] : memref<3x4xf32>
        }
      }
      func.return
    }
    """
    x, y = rng.standard_normal((5, 8)).astype(np.float32), np.zeros((3, 4), np.float32)
    compile_module(parse_kernel(text)).function("k")(x, y, 7)
    np.testing.assert_array_equal(y, x[2:, :4])


def test_views_and_vectors(rng):
    """Views with computed sizes: of bytes, and of a part."""
    text = """
    func.func @k(%b: memref<4096xi8>, %y: memref<?x4xf32>, %n: index) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %x = memref.view %b[%c0][%n, %n] : memref<4096xi8> to memref<3x?x?xf32>
      %r = memref.subview %x[%c2, 0, 1] [1, %n, 4] [1, 1, 1]
        : memref<3x?x?xf32> to memref<?x4xf32, strided<[?, 1], offset: ?>>
      scf.for %i = %c0 to %n step %c1 {
        %v = vector.load %r[%i, %c0] : memref<?x4xf32, strided<[?, 1], offset: ?>>, vector<4xf32>
        vector.store %v, %y[%i, %c0] : memref<?x4xf32>, vector<4xf32>
      }
      func.return
    }
    """
    x, y = rng.standard_normal((3, 6, 6)).astype(np.float32), np.zeros((6, 4), np.float32)
    memory = np.zeros(4096, np.int8)
    memory[: x.nbytes] = x.reshape(-1).view(np.int8)
    compile_module(parse_kernel(text)).function("k")(memory, y, 6)
    np.testing.assert_array_equal(y, x[2, :, 1:5])


@pytest.mark.parametrize(
    "line",
    [
        "%v = memref.load %x[%c1, %c0] : memref<?x?xf32>",
        '"memref.copy"(%x, %x) : (memref<?x?xf32>, memref<?x?xf32>) -> ()',
        "%v = memref.dim %x, %c0 : memref<?x?xf32>",
        "%v = memref.alloc(%c1, %c1) : memref<?x?xf32>",
    ],
)
def test_unknown_strides_and_extents_are_refused(line):
    text = f"""
    func.func @k(%x: memref<?x?xf32>) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      {line}
      func.return
    }}
    """
    with pytest.raises(UnsupportedError, match=r"static|unknown"):
        compile_module(parse_kernel(text))
