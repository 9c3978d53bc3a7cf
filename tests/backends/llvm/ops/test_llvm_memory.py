"""Compiled memref and vector memory accesses: views, copies, masks, gathers, constants."""

from __future__ import annotations

import numpy as np
import pytest

from programs.kernel_modules import parse_kernel
from tcopt.backends.llvm.jit import compile_module
from tcopt.backends.llvm.module import emit_module
from tcopt.support.errors import UnsupportedError


def run(text: str, *arrays: object, name: str = "k") -> None:
    """Compile a module and call one function of it."""
    compile_module(parse_kernel(text)).function(name)(*arrays)


def test_view_at_a_byte_offset():
    """A view reinterprets part of a byte buffer; the offset may be computed."""
    buffer = np.zeros(256, np.int8)
    run(
        """
        func.func @k(%b: memref<256xi8>, %o: index) {
          %c1 = arith.constant 1 : index
          %c64 = arith.constant 64 : index
          %f = arith.constant 2.5 : f32
          %v = memref.view %b[%c64][] : memref<256xi8> to memref<4x4xf32>
          memref.store %f, %v[%c1, %c1] : memref<4x4xf32>
          %w = memref.view %b[%o][] : memref<256xi8> to memref<2xf32>
          memref.store %f, %w[%c1] : memref<2xf32>
          func.return
        }
        """,
        buffer,
        128,
    )
    floats = buffer.view(np.float32)
    assert floats[16 + 5] == 2.5
    assert floats[32 + 1] == 2.5
    assert np.count_nonzero(floats) == 2


def test_reinterpret_cast_reshapes(rng):
    a, b = rng.standard_normal((4, 6)).astype(np.float32), np.zeros((2, 12), np.float32)
    run(
        """
        func.func @k(%a: memref<4x6xf32>, %b: memref<2x12xf32>) {
          %r = memref.reinterpret_cast %a to offset: [0], sizes: [2, 12], strides: [12, 1]
            : memref<4x6xf32> to memref<2x12xf32>
          "memref.copy"(%r, %b) : (memref<2x12xf32>, memref<2x12xf32>) -> ()
          func.return
        }
        """,
        a,
        b,
    )
    np.testing.assert_array_equal(b, a.reshape(2, 12))


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_copy_of_a_subview_with_a_computed_offset(rng, offset):
    a, b = rng.standard_normal((5, 8)).astype(np.float32), np.zeros((3, 4), np.float32)
    run(
        """
        func.func @k(%a: memref<5x8xf32>, %b: memref<3x4xf32>, %o: index) {
          %s = memref.subview %a[%o, 2] [3, 4] [1, 1]
            : memref<5x8xf32> to memref<3x4xf32, strided<[8, 1], offset: ?>>
          "memref.copy"(%s, %b)
            : (memref<3x4xf32, strided<[8, 1], offset: ?>>, memref<3x4xf32>) -> ()
          func.return
        }
        """,
        a,
        b,
        offset,
    )
    np.testing.assert_array_equal(b, a[offset : offset + 3, 2:6])


def test_subview_drops_dimensions_of_size_one(rng):
    a, b = rng.standard_normal((3, 4, 5)).astype(np.float32), np.zeros((4, 5), np.float32)
    run(
        """
        func.func @k(%a: memref<3x4x5xf32>, %b: memref<4x5xf32>) {
          %s = memref.subview %a[1, 0, 0] [1, 4, 5] [1, 1, 1]
            : memref<3x4x5xf32> to memref<4x5xf32, strided<[5, 1], offset: 20>>
          "memref.copy"(%s, %b)
            : (memref<4x5xf32, strided<[5, 1], offset: 20>>, memref<4x5xf32>) -> ()
          func.return
        }
        """,
        a,
        b,
    )
    np.testing.assert_array_equal(b, a[1])


def test_allocated_and_stack_memory(rng):
    a = rng.standard_normal(16).astype(np.float32)
    b = np.zeros(16, np.float32)
    run(
        """
        func.func @k(%a: memref<16xf32>, %b: memref<16xf32>) {
          %c0 = arith.constant 0 : index
          %heap = memref.alloc() : memref<16xf32>
          %stack = memref.alloca() : memref<16xf32>
          "memref.copy"(%a, %heap) : (memref<16xf32>, memref<16xf32>) -> ()
          %v = vector.load %heap[%c0] : memref<16xf32>, vector<16xf32>
          vector.store %v, %stack[%c0] : memref<16xf32>, vector<16xf32>
          "memref.copy"(%stack, %b) : (memref<16xf32>, memref<16xf32>) -> ()
          memref.dealloc %heap : memref<16xf32>
          func.return
        }
        """,
        a,
        b,
    )
    np.testing.assert_array_equal(a, b)


def test_global_constants():
    out = np.zeros(4, np.float32)
    run(
        """
        "memref.global"() <{sym_name = "table", sym_visibility = "private", constant,
          type = memref<4xf32>, initial_value = dense<[1.0, -2.0, 0.5, 4.0]> : tensor<4xf32>}>
          : () -> ()
        func.func @k(%out: memref<4xf32>) {
          %t = memref.get_global @table : memref<4xf32>
          "memref.copy"(%t, %out) : (memref<4xf32>, memref<4xf32>) -> ()
          func.return
        }
        """,
        out,
    )
    np.testing.assert_array_equal(out, [1.0, -2.0, 0.5, 4.0])


@pytest.mark.parametrize("type", ["f32", "i8", "i1"])
@pytest.mark.parametrize("count", [-5, 0, 1, 7, 16, 1 << 40])
def test_masked_access_touches_only_active_lanes(rng, type, count):
    dtype = {"f32": np.float32, "i8": np.int8, "i1": np.bool_}[type]
    a = (rng.random(16) * 100 > 50).astype(dtype)
    b = np.ones(16, dtype)
    zero = "0.0" if type == "f32" else "false" if type == "i1" else "0"
    run(
        f"""
        func.func @k(%a: memref<16x{type}>, %b: memref<16x{type}>, %n: index) {{
          %c0 = arith.constant 0 : index
          %zero = arith.constant dense<{zero}> : vector<16x{type}>
          %m = vector.create_mask %n : vector<16xi1>
          %v = vector.maskedload %a[%c0], %m, %zero
            : memref<16x{type}>, vector<16xi1>, vector<16x{type}> into vector<16x{type}>
          vector.maskedstore %b[%c0], %m, %v
            : memref<16x{type}>, vector<16xi1>, vector<16x{type}>
          func.return
        }}
        """,
        a,
        b,
        count,
    )
    active = min(max(count, 0), 16)
    np.testing.assert_array_equal(b[:active], a[:active])
    np.testing.assert_array_equal(b[active:], np.ones(16 - active, dtype))


def constant_masks(type: str, lanes: int, masks: list[list[bool]]) -> str:
    """Kernel that stores row i of @a to row i of @b under the i-th mask."""
    vector, memref = f"vector<{lanes}x{type}>", f"memref<{len(masks)}x{lanes}x{type}>"
    stores = "".join(
        f"""
          %i{row} = arith.constant {row} : index
          %m{row} = arith.constant dense<[{", ".join(str(on).lower() for on in mask)}]>
            : vector<{lanes}xi1>
          %v{row} = vector.load %a[%i{row}, %c0] : {memref}, {vector}
          vector.maskedstore %b[%i{row}, %c0], %m{row}, %v{row}
            : {memref}, vector<{lanes}xi1>, {vector}"""
        for row, mask in enumerate(masks)
    )
    return f"""
        func.func @k(%a: {memref}, %b: {memref}) {{
          %c0 = arith.constant 0 : index{stores}
          func.return
        }}"""


@pytest.mark.parametrize(("type", "lanes"), [("f32", 8), ("f64", 4), ("i8", 16), ("i1", 8)])
def test_stores_under_constant_masks_touch_only_active_lanes(rng, type, lanes):
    dtype = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "i1": np.bool_}[type]
    masks = [[lane < count for lane in range(lanes)] for count in range(1, lanes)]
    masks.append([lane % 2 == 1 for lane in range(lanes)])
    a = (rng.random((len(masks), lanes)) * 100 > 50).astype(dtype)
    b = np.ones_like(a)
    run(constant_masks(type, lanes, masks), a, b)
    np.testing.assert_array_equal(b, np.where(masks, a, np.ones_like(a)))


@pytest.mark.parametrize(("features", "masked"), [({"avx2"}, 1), ({"avx2", "avx512vl"}, 2)])
def test_leading_lanes_are_plain_stores_where_masks_are_slow(features, masked):
    """A mask of five lanes is split into four and one; other masks are not split."""
    masks = [[lane < 5 for lane in range(8)], [lane != 3 for lane in range(8)]]
    module = parse_kernel(constant_masks("f32", 8, masks))
    text = emit_module(module, capabilities=frozenset(features))
    assert text.count("call void @llvm.masked.store") == masked
    assert ("store <4 x float>" in text) == ("avx512vl" not in features)


@pytest.mark.parametrize("index_type", ["i32", "i64", "index"])
def test_gather_and_scatter(rng, index_type):
    a = rng.standard_normal((4, 16)).astype(np.float32)
    index = rng.permutation(32).astype(np.int32 if index_type == "i32" else np.int64)[:16]
    gathered, scattered = np.zeros(16, np.float32), np.zeros(64, np.float32)
    run(
        f"""
        func.func @k(%a: memref<4x16xf32>, %i: memref<16x{index_type}>, %g: memref<16xf32>,
                     %s: memref<64xf32>) {{
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c12 = arith.constant 12 : index
          %m = vector.create_mask %c12 : vector<16xi1>
          %p = arith.constant dense<7.0> : vector<16xf32>
          %iv = vector.load %i[%c0] : memref<16x{index_type}>, vector<16x{index_type}>
          %v = vector.gather %a[%c1, %c0][%iv], %m, %p : memref<4x16xf32>,
            vector<16x{index_type}>, vector<16xi1>, vector<16xf32> into vector<16xf32>
          vector.store %v, %g[%c0] : memref<16xf32>, vector<16xf32>
          vector.scatter %s[%c1][%iv], %m, %v : memref<64xf32>, vector<16x{index_type}>,
            vector<16xi1>, vector<16xf32>
          func.return
        }}
        """,
        a,
        index,
        gathered,
        scattered,
    )
    expected = np.where(np.arange(16) < 12, a.reshape(-1)[16 + index], 7.0)
    np.testing.assert_array_equal(gathered, expected)
    np.testing.assert_array_equal(scattered[1 + index[:12]], expected[:12])
    assert np.count_nonzero(scattered) == 12


def test_two_dimensional_vector_over_whole_rows(rng):
    a, b = rng.standard_normal((4, 8)).astype(np.float32), np.zeros((4, 8), np.float32)
    run(
        """
        func.func @k(%a: memref<4x8xf32>, %b: memref<4x8xf32>) {
          %c0 = arith.constant 0 : index
          %c2 = arith.constant 2 : index
          %v = vector.load %a[%c2, %c0] : memref<4x8xf32>, vector<2x8xf32>
          vector.store %v, %b[%c0, %c0] : memref<4x8xf32>, vector<2x8xf32>
          func.return
        }
        """,
        a,
        b,
    )
    np.testing.assert_array_equal(b[:2], a[2:])


def test_vector_over_a_strided_dimension_is_refused():
    text = """
    func.func @k(%a: memref<4x8xf32>) {
      %c0 = arith.constant 0 : index
      %v = vector.load %a[%c0, %c0] : memref<4x8xf32>, vector<4x2xf32>
      func.return
    }
    """
    with pytest.raises(UnsupportedError, match="not adjacent"):
        compile_module(parse_kernel(text))
