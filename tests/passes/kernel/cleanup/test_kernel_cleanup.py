"""The kernel cleanup passes preserve results and establish their form."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.passes import ModulePass

from programs.kernel_modules import parse_kernel
from tcopt.backends.llvm.jit import compile_module
from tcopt.passes.kernel.cleanup.dce import DcePass
from tcopt.passes.kernel.registers.promote_registers import PromoteRegistersPass

_HEAD = """
func.func private @k(%a: memref<8x32xf32>, %b: memref<8x32xf32>, %n: index, %p: i1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %z = arith.constant dense<0.0> : vector<16xf32>
  %one = arith.constant 1.0 : f32
"""

PROGRAMS = {
    "matmul with accumulators in a buffer": """
  %acc = memref.alloca() : memref<2x16xf32>
  scf.for %i = %c0 to %c8 step %c1 {
    vector.store %z, %acc[%c0, %c0] : memref<2x16xf32>, vector<16xf32>
    vector.store %z, %acc[%c1, %c0] : memref<2x16xf32>, vector<16xf32>
    scf.for %j = %c0 to %c8 step %c1 {
      %s = memref.load %a[%i, %j] : memref<8x32xf32>
      %sv = vector.broadcast %s : f32 to vector<16xf32>
      %v0 = vector.load %a[%j, %c0] : memref<8x32xf32>, vector<16xf32>
      %w0 = vector.load %acc[%c0, %c0] : memref<2x16xf32>, vector<16xf32>
      %x0 = vector.fma %sv, %v0, %w0 : vector<16xf32>
      vector.store %x0, %acc[%c0, %c0] : memref<2x16xf32>, vector<16xf32>
      %v1 = vector.load %a[%j, %c16] : memref<8x32xf32>, vector<16xf32>
      %w1 = vector.load %acc[%c1, %c0] : memref<2x16xf32>, vector<16xf32>
      %x1 = vector.fma %sv, %v1, %w1 : vector<16xf32>
      vector.store %x1, %acc[%c1, %c0] : memref<2x16xf32>, vector<16xf32>
    }
    %y0 = vector.load %acc[%c0, %c0] : memref<2x16xf32>, vector<16xf32>
    vector.store %y0, %b[%i, %c0] : memref<8x32xf32>, vector<16xf32>
    %y1 = vector.load %acc[%c1, %c0] : memref<2x16xf32>, vector<16xf32>
    vector.store %y1, %b[%i, %c16] : memref<8x32xf32>, vector<16xf32>
  }
""",
    "branches, parts of slots and masked stores": """
  %acc = memref.alloca() : memref<32xf32>
  %m = vector.create_mask %n : vector<16xi1>
  vector.store %z, %acc[%c0] : memref<32xf32>, vector<16xf32>
  vector.store %z, %acc[%c16] : memref<32xf32>, vector<16xf32>
  scf.for %i = %c0 to %n step %c1 {
    %v = vector.load %a[%i, %c0] : memref<8x32xf32>, vector<16xf32>
    vector.maskedstore %acc[%c0], %m, %v : memref<32xf32>, vector<16xi1>, vector<16xf32>
    scf.if %p {
      %s = memref.load %acc[%c2] : memref<32xf32>
      %t = arith.addf %s, %one : f32
      memref.store %t, %acc[%c4] : memref<32xf32>
      %h = vector.load %acc[%c8] : memref<32xf32>, vector<8xf32>
      vector.store %h, %acc[%c16] : memref<32xf32>, vector<8xf32>
    } else {
      memref.store %one, %acc[%c1] : memref<32xf32>
    }
  }
  %x = vector.load %acc[%c0] : memref<32xf32>, vector<16xf32>
  %y = vector.maskedload %acc[%c16], %m, %x
    : memref<32xf32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
  vector.store %x, %b[%c0, %c0] : memref<8x32xf32>, vector<16xf32>
  vector.store %y, %b[%c1, %c0] : memref<8x32xf32>, vector<16xf32>
""",
    "dead loop-carried values and a buffer nobody reads": """
  %dead = memref.alloca() : memref<4xf32>
  %r, %s = scf.for %i = %c0 to %n step %c1 iter_args(%x = %one, %y = %one) -> (f32, f32) {
    %u = arith.addf %x, %one : f32
    %w = arith.mulf %u, %u : f32
    memref.store %w, %dead[%c0] : memref<4xf32>
    scf.yield %u, %w : f32, f32
  }
  memref.store %r, %b[%c0, %c0] : memref<8x32xf32>
""",
}
PASSES: dict[str, list[ModulePass]] = {
    "promote-registers": [PromoteRegistersPass()],
    "dce": [DcePass()],
    "all": [PromoteRegistersPass(), DcePass()],
}


def transformed(body: str, passes: list[ModulePass]):
    """Parse a program and run passes on it."""
    module = parse_kernel(f"{_HEAD}{body}\n  func.return\n}}")
    for each in passes:
        each.apply(Context(), module)
        module.verify()
    return module


@pytest.mark.nightly(every=4)
@pytest.mark.parametrize("passes", PASSES)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("flag", [False, True])
def test_results_do_not_change(rng, program, passes, count, flag):
    a = rng.standard_normal((8, 32)).astype(np.float32)
    start = rng.standard_normal((8, 32)).astype(np.float32)
    before, after = start.copy(), start.copy()
    compile_module(transformed(PROGRAMS[program], [])).function("k")(a, before, count, flag)
    module = transformed(PROGRAMS[program], PASSES[passes])
    compile_module(module).function("k")(a, after, count, flag)
    np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("passes", ["dce", "all"])
def test_running_again_changes_nothing(program, passes):
    module = transformed(PROGRAMS[program], PASSES[passes])
    once = str(module)
    for each in PASSES[passes]:
        each.apply(Context(), module)
    assert str(module) == once


def test_accumulators_leave_memory():
    module = str(transformed(PROGRAMS["matmul with accumulators in a buffer"], PASSES["all"]))
    assert "alloca" not in module
    assert module.count("vector.store") == 2


def test_promoted_programs_have_no_buffers():
    module = transformed(PROGRAMS["branches, parts of slots and masked stores"], PASSES["all"])
    assert "alloca" not in str(module)


@pytest.mark.parametrize(
    ("why", "body"),
    [
        ("computed index", "memref.store %one, %m[%n] : memref<32xf32>"),
        (
            "accesses that overlap partly",
            "vector.store %z, %m[%c0] : memref<32xf32>, vector<16xf32>\n"
            "vector.store %z, %m[%c8] : memref<32xf32>, vector<16xf32>",
        ),
        (
            "use by another op",
            "%v = memref.reinterpret_cast %m to offset: [0], sizes: [32], strides: [1]"
            " : memref<32xf32> to memref<32xf32>\n"
            "memref.store %one, %v[%c0] : memref<32xf32>",
        ),
        (
            "use inside a parallel loop",
            '"scf.parallel"(%c0, %c8, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({\n'
            "^bb0(%i: index):\n"
            "memref.store %one, %m[%c0] : memref<32xf32>\n"
            "scf.reduce\n"
            "}) : (index, index, index) -> ()",
        ),
    ],
)
def test_buffers_that_stay_in_memory(why, body):
    module = transformed(
        f"%m = memref.alloca() : memref<32xf32>\n{body}", PASSES["promote-registers"]
    )
    assert "memref.alloca" in str(module), why


def test_buffers_inside_parallel_loops_are_promoted():
    body = """
    "scf.parallel"(%c0, %c8, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
    ^bb0(%i: index):
      %m = memref.alloca() : memref<32xf32>
      memref.store %one, %m[%c4] : memref<32xf32>
      %x = memref.load %m[%c4] : memref<32xf32>
      memref.store %x, %b[%i, %c0] : memref<8x32xf32>
      scf.reduce
    }) : (index, index, index) -> ()
    """
    assert "alloca" not in str(transformed(body, PASSES["promote-registers"]))
