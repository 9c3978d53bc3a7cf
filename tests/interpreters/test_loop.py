"""The loop interpreter follows the dialect's definition."""

# ruff: noqa: E501 (lines of IR)
from __future__ import annotations

import numpy as np
import pytest

from programs.loop_programs import (
    FUSED_INDEX,
    MATMUL,
    PADDED_CONV,
    SOFTMAX,
    function_of,
    parse,
    random_arguments,
    results,
)
from tcopt.interpreters.loop import run_func, run_module
from tcopt.support.errors import InputError, UnsupportedError


def test_matmul_with_tails_and_init() -> None:
    x, w, y = results(parse(MATMUL))
    np.testing.assert_allclose(y, np.maximum(x @ w, 0), rtol=1e-5, atol=1e-5)


def test_padded_convolution_reads_the_default_outside() -> None:
    x, w, y = results(parse(PADDED_CONV))
    padded = np.full((3, 12, 13), 0.5, np.float32)
    padded[:, 1:-1, 1:-1] = 2 * x
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    np.testing.assert_allclose(y, np.einsum("chwij,ocij->ohw", windows, w), rtol=1e-5, atol=1e-4)


def test_softmax() -> None:
    x, y = results(parse(SOFTMAX))
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)


def test_integers_are_exact_and_guards_skip_the_tail() -> None:
    _, n, _, p = results(parse(FUSED_INDEX))
    np.testing.assert_array_equal(p.reshape(6, 10), n + np.arange(10))


def test_parallel_iterations_in_random_order() -> None:
    module = parse(MATMUL)
    for expected, actual in zip(results(module), results(module, shuffle_seed=3), strict=True):
        np.testing.assert_array_equal(expected, actual)


def test_integers_wrap_to_their_width() -> None:
    module = parse("""
      loop.func @f(%x: memref<3xi8>) {
        loop.for %i = 0 to 3 {
          %a = loop.load %x[%i] : memref<3xi8>
          %b = arith.muli %a, %a : i8
          loop.store %b, %x[%i] : memref<3xi8>
        }
      }""")
    x = np.array([100, -128, 7], np.int8)
    run_func(function_of(module), [x])
    np.testing.assert_array_equal(x, np.array([16, 0, 49], np.int8))


def test_a_new_buffer_holds_nan() -> None:
    module = parse("""
      loop.func @f(%y: memref<1xf32>) {
        %t = loop.alloc local : memref<1xf32>
        %a = loop.load %t[0] : memref<1xf32>
        loop.store %a, %y[0] : memref<1xf32>
      }""")
    y = np.zeros(1, np.float32)
    run_func(function_of(module), [y])
    assert np.isnan(y[0])


def test_an_access_outside_is_an_error() -> None:
    module = parse("""
      loop.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
        loop.for %i = 0 to 4 {
          // What a guard keeps from running is not for the verifier to judge.
          loop.guard ([%i] in 4) {
            %a = loop.load %x[%i + 1] : memref<4xf32>
            loop.store %a, %y[%i] : memref<4xf32>
          }
        }
      }""")
    with pytest.raises(InputError, match="index 4 is outside a buffer dimension of 4"):
        results(module)


def test_arguments_are_checked() -> None:
    function = function_of(parse(MATMUL))
    arrays = random_arguments(function)
    with pytest.raises(InputError, match="2 arrays for 3 arguments"):
        run_func(function, arrays[:2])
    with pytest.raises(InputError, match="shape"):
        run_func(function, [arrays[1], arrays[0], arrays[2]])


def test_unknown_ops_are_reported() -> None:
    module = parse("""
      loop.func @f(%x: memref<4xf32>) {
        loop.push_token "load" -> "compute"
      }""")
    with pytest.raises(UnsupportedError, match=r"loop\.push_token"):
        results(module)


def test_deep_nests_run() -> None:
    loops = "".join(f"loop.for %i{n} = 0 to 1 {{" for n in range(40))
    module = parse(f"""
      loop.func @f(%x: memref<1xf32>) {{
        {loops}
          %a = arith.constant 2.0 : f32
          loop.store %a, %x[%i0 + %i39] : memref<1xf32>
        {"}" * 40}
      }}""")
    x = np.zeros(1, np.float32)
    run_func(function_of(module), [x])
    assert x[0] == 2.0


HOST = """
builtin.module attributes {graph.outputs = ["y", "z"]} {
  loop.func @add(%a: memref<6xf32>, %b: memref<6xf32>) {
    loop.for %i = 0 to 6 {
      %x = loop.load %a[%i] : memref<6xf32>
      %one = arith.constant 1.0 : f32
      %y = arith.addf %x, %one : f32
      loop.store %y, %b[%i] : memref<6xf32>
    }
  }
  func.func @main(%x: memref<2x3xf32>, %y: memref<6xf32>, %z: memref<6xf32>) {
    %flat = memref.reinterpret_cast %x to offset: [0], sizes: [6], strides: [1] : memref<2x3xf32> to memref<6xf32>
    %t = memref.alloc() : memref<6xf32>
    loop.call @add(%flat, %t) : memref<6xf32>, memref<6xf32>
    loop.call @add(%t, %y) : memref<6xf32>, memref<6xf32>
    "memref.copy"(%t, %z) : (memref<6xf32>, memref<6xf32>) -> ()
    func.return
  }
}
"""


def test_host_program() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y, z = run_module(parse(HOST), [x])
    np.testing.assert_array_equal(y, x.ravel() + 2)
    np.testing.assert_array_equal(z, x.ravel() + 1)


def test_outputs_given_are_written() -> None:
    x, y, z = (np.ones(shape, np.float32) for shape in ((2, 3), 6, 6))
    run_module(parse(HOST), [x, y, z])
    np.testing.assert_array_equal(y, np.full(6, 3, np.float32))
