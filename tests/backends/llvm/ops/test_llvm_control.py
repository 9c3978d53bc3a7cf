"""Loops, branches and parallel loops, compiled."""

from __future__ import annotations

import numpy as np
import pytest

from programs.kernel_modules import parse_kernel
from tcopt.backends.llvm.jit import compile_module
from tcopt.backends.llvm.module import emit_module


def call(text: str, *arguments: object) -> object:
    """Compile a module and call its function `k`."""
    return compile_module(parse_kernel(text)).function("k")(*arguments)


@pytest.mark.parametrize(("low", "high", "step"), [(0, 10, 1), (2, 11, 3), (5, 5, 1), (7, 3, 2)])
def test_loop_with_computed_bounds_carries_values(low, high, step):
    text = """
    func.func @k(%lo: index, %hi: index, %st: index) -> index {
      %zero = arith.constant 0 : index
      %r = scf.for %i = %lo to %hi step %st iter_args(%s = %zero) -> (index) {
        %n = arith.addi %s, %i : index
        scf.yield %n : index
      }
      func.return %r : index
    }
    """
    assert call(text, low, high, step) == sum(range(low, high, step))


@pytest.mark.parametrize("bounds", [(0, 0), (0, 1), (0, 5), (3, 3)])
def test_loop_with_constant_bounds(bounds):
    text = f"""
    func.func @k(%x: i32) -> i32 {{
      %lo = arith.constant {bounds[0]} : index
      %hi = arith.constant {bounds[1]} : index
      %st = arith.constant 1 : index
      %r = scf.for %i = %lo to %hi step %st iter_args(%s = %x) -> (i32) {{
        %n = arith.addi %s, %x : i32
        scf.yield %n : i32
      }}
      func.return %r : i32
    }}
    """
    assert call(text, 7) == 7 * (1 + bounds[1] - bounds[0])


def test_carried_values_may_swap():
    text = """
    func.func @k(%n: index, %a: i32, %b: i32) -> i32 {
      %lo = arith.constant 0 : index
      %st = arith.constant 1 : index
      %r, %q = scf.for %i = %lo to %n step %st iter_args(%x = %a, %y = %b) -> (i32, i32) {
        scf.yield %y, %x : i32, i32
      }
      func.return %r : i32
    }
    """
    assert [call(text, n, 1, 2) for n in range(4)] == [1, 2, 1, 2]


@pytest.mark.parametrize("condition", [False, True])
def test_branch_with_results_and_memory(condition):
    text = """
    func.func @k(%c: i1, %m: memref<2xf32>) -> f32 {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %a = arith.constant 1.5 : f32
      %b = arith.constant -2.0 : f32
      %r = scf.if %c -> (f32) {
        memref.store %a, %m[%c0] : memref<2xf32>
        scf.yield %a : f32
      } else {
        scf.yield %b : f32
      }
      scf.if %c {
        memref.store %r, %m[%c1] : memref<2xf32>
      }
      func.return %r : f32
    }
    """
    memory = np.zeros(2, np.float32)
    assert call(text, condition, memory) == (1.5 if condition else -2.0)
    np.testing.assert_array_equal(memory, [1.5, 1.5] if condition else [0, 0])


def test_while_counts_down():
    text = """
    func.func @k(%n: i32) -> i32 {
      %one = arith.constant 1 : i32
      %zero = arith.constant 0 : i32
      %r, %s = scf.while (%x = %n, %t = %zero) : (i32, i32) -> (i32, i32) {
        %c = arith.cmpi sgt, %x, %zero : i32
        scf.condition(%c) %x, %t : i32, i32
      } do {
      ^bb0(%y: i32, %u: i32):
        %d = arith.subi %y, %one : i32
        %w = arith.addi %u, %y : i32
        scf.yield %d, %w : i32, i32
      }
      func.return %s : i32
    }
    """
    assert call(text, 10) == 55
    assert call(text, 0) == 0


def test_switch():
    text = """
    func.func @k(%n: index) -> i32 {
      %a = arith.constant 10 : i32
      %b = arith.constant 20 : i32
      %c = arith.constant 30 : i32
      %r = scf.index_switch %n -> i32
      case 1 {
        scf.yield %a : i32
      }
      case 5 {
        scf.yield %b : i32
      }
      default {
        scf.yield %c : i32
      }
      func.return %r : i32
    }
    """
    assert [call(text, n) for n in (1, 5, 2)] == [10, 20, 30]


def test_invariant_address_arithmetic_is_written_in_front_of_the_loop():
    text = """
    func.func private @k(%m: memref<8x64xf32>, %i: index) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c64 = arith.constant 64 : index
      %f = arith.constant 0.0 : f32
      scf.for %j = %c0 to %c64 step %c1 {
        memref.store %f, %m[%i, %j] : memref<8x64xf32>
      }
      func.return
    }
    """
    lines = emit_module(parse_kernel(text)).splitlines()
    head = next(n for n, line in enumerate(lines) if line.startswith("for."))
    row = next(n for n, line in enumerate(lines) if "shl nsw i64 %arg1, 8" in line)
    assert row < head


def parallel_copy(extents: tuple[int, ...], attributes: str = "") -> str:
    """Kernel that writes 2x + the last coordinate of the iteration, in parallel."""
    rank = len(extents)
    shape = "x".join(map(str, extents))
    names = [f"%i{d}" for d in range(rank)]
    sizes = "\n".join(f"%n{d} = arith.constant {n} : index" for d, n in enumerate(extents))
    return f"""
    func.func private @k(%a: memref<{shape}xf32>, %b: memref<{shape}xf32>, %s: f32) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      {sizes}
      "scf.parallel"({", ".join(["%c0"] * rank + [f"%n{d}" for d in range(rank)] + ["%c1"] * rank)})
        <{{operandSegmentSizes = array<i32: {rank}, {rank}, {rank}, 0>}}> ({{
      ^bb0({", ".join(f"{n}: index" for n in names)}):
        %x = memref.load %a[{", ".join(names)}] : memref<{shape}xf32>
        %y = arith.mulf %x, %s : f32
        %l = arith.index_cast {names[-1]} : index to i64
        %f = arith.sitofp %l : i64 to f32
        %z = arith.addf %y, %f : f32
        memref.store %z, %b[{", ".join(names)}] : memref<{shape}xf32>
        scf.reduce
      }}) {attributes} : ({", ".join(["index"] * (3 * rank))}) -> ()
      func.return
    }}
    """


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("extents", [(1,), (3,), (1000,), (7, 11), (5, 3, 4)])
@pytest.mark.parametrize("attributes", ["", "{grain = 1 : index}", "{grain = 7 : index}"])
def test_parallel_loop_runs_every_iteration_once(rng, extents, threads, attributes):
    a = rng.standard_normal(extents).astype(np.float32)
    b = np.zeros_like(a)
    loaded = compile_module(parse_kernel(parallel_copy(extents, attributes)))
    loaded.threads = threads
    loaded.function("k")(a, b, 2.0)
    expected = a * np.float32(2) + np.arange(extents[-1], dtype=np.float32)
    np.testing.assert_array_equal(b, expected)


def test_small_parallel_loops_run_serially():
    """A loop with less work than one range runs without threads, and its code assumes so."""
    assert "tcopt_parallel" not in emit_module(parse_kernel(parallel_copy((4,))))
    assert "tcopt_parallel" in emit_module(parse_kernel(parallel_copy((4,), "{grain = 1 : index}")))


def test_parallel_loop_with_computed_bounds_and_step(rng):
    text = """
    func.func private @k(%b: memref<100xf32>, %lo: index, %hi: index, %st: index) {
      %one = arith.constant 1.0 : f32
      "scf.parallel"(%lo, %hi, %st) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
      ^bb0(%i: index):
        memref.store %one, %b[%i] : memref<100xf32>
        scf.reduce
      }) {grain = 1 : index} : (index, index, index) -> ()
      func.return
    }
    """
    loaded = compile_module(parse_kernel(text))
    loaded.threads = 2
    for low, high, step in [(0, 100, 1), (3, 50, 4), (10, 5, 1)]:
        b = np.zeros(100, np.float32)
        loaded.function("k")(b, low, high, step)
        assert list(np.flatnonzero(b)) == list(range(low, high, step))


def test_nested_parallel_loops_and_private_stack_memory(rng):
    """Each iteration has its own stack buffer, and an inner parallel loop runs in order."""
    text = """
    func.func private @k(%a: memref<64x8xf32>, %b: memref<64x8xf32>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c8 = arith.constant 8 : index
      %c64 = arith.constant 64 : index
      "scf.parallel"(%c0, %c64, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
      ^bb0(%i: index):
        %tmp = memref.alloca() : memref<8xf32>
        "scf.parallel"(%c0, %c8, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
        ^bb1(%j: index):
          %x = memref.load %a[%i, %j] : memref<64x8xf32>
          memref.store %x, %tmp[%j] : memref<8xf32>
          scf.reduce
        }) : (index, index, index) -> ()
        %v = vector.load %tmp[%c0] : memref<8xf32>, vector<8xf32>
        vector.store %v, %b[%i, %c0] : memref<64x8xf32>, vector<8xf32>
        scf.reduce
      }) {grain = 1 : index} : (index, index, index) -> ()
      func.return
    }
    """
    a = rng.standard_normal((64, 8)).astype(np.float32)
    b = np.zeros_like(a)
    loaded = compile_module(parse_kernel(text))
    loaded.threads = 2
    for _ in range(20):
        b[:] = 0
        loaded.function("k")(a, b)
        np.testing.assert_array_equal(a, b)
