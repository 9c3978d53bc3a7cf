"""Output and errors of the lowering to kernels."""

from __future__ import annotations

import pytest
from xdsl.dialects import arith, memref, vector

from programs.loop_programs import LOOP_PASSES, MATMUL, TAILS, apply, assert_same, parse, results
from tcopt.dialects import loop
from tcopt.support.errors import PassFailedError


def test_blocks_must_be_lowered_first() -> None:
    with pytest.raises(PassFailedError, match="run lower-blocks first"):
        apply(parse(MATMUL), "lower-loop-to-kernel")
    unrolled = parse(MATMUL.replace("%jo = 0 to 3", "%jo = 0 to 3 unrolled"))
    with pytest.raises(PassFailedError, match="run lower-blocks first"):
        apply(unrolled, "unroll-loops")


def test_thread_loops_are_refused() -> None:
    module = parse("""
      loop.func @f(%x: memref<8xf32>) {
        loop.for %i = 0 to 8 thread threadIdx.x {
          %a = loop.load %x[%i] : memref<8xf32>
          loop.store %a, %x[%i] : memref<8xf32>
        }
      }""")
    with pytest.raises(PassFailedError, match=r"threadIdx\.x"):
        apply(module, "lower-loop-to-kernel")


def test_products_stay_where_no_flag_allows_contraction() -> None:
    fused, plain = parse(MATMUL), parse(MATMUL.replace("contract", "nsz"))
    apply(fused, *LOOP_PASSES, "lower-loop-to-kernel")
    apply(plain, *LOOP_PASSES, "lower-loop-to-kernel")
    assert not any(isinstance(op, arith.MulfOp) for op in fused.walk())
    assert not any(isinstance(op, vector.FMAOp) for op in plain.walk())


def test_equal_loads_are_written_once() -> None:
    module = parse("""
      loop.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
        loop.for %i = 0 to 8 {
          %a = loop.load %x[%i] : memref<8xf32>
          %b = loop.load %x[%i] : memref<8xf32>
          %c = arith.addf %a, %b : f32
          loop.store %c, %y[%i] : memref<8xf32>
          %d = loop.load %y[%i] : memref<8xf32>
          loop.store %d, %x[%i] : memref<8xf32>
          %e = loop.load %x[%i] : memref<8xf32>
          loop.store %e, %y[%i] : memref<8xf32>
        }
      }""")
    apply(module, "lower-loop-to-kernel")
    assert sum(isinstance(op, memref.LoadOp) for op in module.walk()) == 3


def test_whole_tiles_run_without_guards_and_masks() -> None:
    module = parse(TAILS)
    expected = results(module)
    apply(module, *LOOP_PASSES)
    assert_same(expected, results(module))
    first = next(
        op for op in module.walk() if isinstance(op, loop.GuardOp) and op.parent_op() is not None
    )
    main = next(op for op in first.body.walk() if isinstance(op, loop.GuardOp))
    inside = list(main.body.walk())
    assert not any(isinstance(op, loop.GuardOp | loop.MaskOp) for op in inside)
