"""Faults in the source of the compiler, each with a small program that shows it."""

from __future__ import annotations

from faults.sources import SourceFault
from tcopt.backends.llvm.ops import arith as emit_arith
from tcopt.passes.kernel.lowering import lower_loop_to_kernel
from tcopt.passes.kernel.memory import memory_layout
from tcopt.passes.loop.blocks import guards
from tcopt.passes.loop.buffers import compact_buffers
from tcopt.schedules.primitives import decompose_reduction, fuse, parallel

PRODUCT = """loop.func @f(%x: memref<10x12xf32>, %y: memref<10xf32>) {
  loop.for %i = 0 to 10 {
    loop.for %k = 0 to 12 {
      loop.block "sum" (%v: spatial 10 = %i, %r: reduce 12 = %k) {
        loop.init {
          %z = arith.constant 0.0 : f32
          loop.store %z, %y[%v] : memref<10xf32>
        }
        %0 = loop.load %x[%v, %r] : memref<10x12xf32>
        %1 = loop.load %y[%v] : memref<10xf32>
        %2 = arith.subf %1, %0 : f32
        loop.store %2, %y[%v] : memref<10xf32>
      }
    }
  }
}
sched.sequence @f_schedule for @f {
  %b = sched.get_block "sum"
  %i, %k = sched.get_loops %b
"""
TILED = (
    PRODUCT
    + """  %io, %ii = sched.split %i by [?, 4]
  %ko, %ki = sched.split %k by [?, 4]
  sched.parallel %io
  sched.unroll %ki
}"""
)
FUSED = (
    PRODUCT
    + """  %j = sched.fuse %i, %k
  sched.unroll %j
}"""
)
DECOMPOSED = (
    PRODUCT
    + """  %io, %ii = sched.split %i by [?, 4]
  sched.reorder %k, %ii
  %init = sched.decompose_reduction %b at %k
}"""
)
RACE = (
    PRODUCT
    + """  sched.parallel %k
}"""
)
SHIFTED = """loop.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  %t = loop.alloc global : memref<8xf32>
  loop.for %i = 0 to 8 {
    loop.block "w" (%v: spatial 8 = %i) {
      %0 = loop.load %x[%v] : memref<8xf32>
      loop.store %0, %t[%v] : memref<8xf32>
    }
    loop.block "r" (%v: spatial 8 = %i) {
      %0 = loop.load %t[%v - 1] else 0.0 : memref<8xf32>
      loop.store %0, %y[%v] : memref<8xf32>
    }
  }
}"""
TWO_GUARDS = """loop.func @f(%x: memref<8xf32>, %y: memref<8xf32>, %z: memref<8xf32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 2 {
      loop.guard ([%i] in 2) {
        %0 = loop.load %x[%i * 2 + %j] : memref<8xf32>
        loop.store %0, %y[%i * 2 + %j] : memref<8xf32>
      }
      loop.guard ([%i] in 3) {
        %0 = loop.load %x[%i * 2 + %j] : memref<8xf32>
        loop.store %0, %z[%i * 2 + %j] : memref<8xf32>
      }
    }
  }
}"""
KERNEL = "apply-schedule,lower-blocks,lower-loop-to-kernel"
HOST = """func.func private @negate(%x: memref<8xf32>, %y: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  scf.for %i = %c0 to %c8 step %c1 {
    %0 = memref.load %x[%i] : memref<8xf32>
    %1 = arith.negf %0 : f32
    memref.store %1, %y[%i] : memref<8xf32>
  }
  func.return
}
func.func private @subtract(%x: memref<8xf32>, %y: memref<8xf32>, %z: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  scf.for %i = %c0 to %c8 step %c1 {
    %0 = memref.load %x[%i] : memref<8xf32>
    %1 = memref.load %y[%i] : memref<8xf32>
    %2 = arith.subf %0, %1 : f32
    memref.store %2, %z[%i] : memref<8xf32>
  }
  func.return
}
func.func @main(%x: memref<8xf32>, %out: memref<8xf32>) {
  %a = memref.alloc() : memref<8xf32>
  %b = memref.alloc() : memref<8xf32>
  func.call @negate(%x, %a) : (memref<8xf32>, memref<8xf32>) -> ()
  func.call @negate(%a, %b) : (memref<8xf32>, memref<8xf32>) -> ()
  func.call @subtract(%a, %b, %out) : (memref<8xf32>, memref<8xf32>, memref<8xf32>) -> ()
  func.return
}"""

SOURCE_FAULTS = [
    SourceFault("an inner index of a fused loop wraps early", "primitive", fuse, "fuse",
                "index % max(extents[position], 1)", "index % max(extents[position] - 1, 1)",
                "'sched.fuse'", FUSED, KERNEL),
    SourceFault("the last start of a reduction is lost", "primitive", decompose_reduction,
                "decompose_reduction", "new_loop(old.trip_count,", "new_loop(old.trip_count - 1,",
                "'sched.decompose_reduction'", DECOMPOSED, KERNEL),
    SourceFault("a reduction may be parallel", "primitive", parallel, "parallel",
                'check_independent(state, "parallel", loop)', "None", "'sched.parallel'", RACE,
                KERNEL),
    SourceFault("a shared buffer counts as private", "loop", compact_buffers, "_is_private",
                "return all(", "return True or all(", "pass 'compact-buffers'", SHIFTED,
                "compact-buffers"),
    SourceFault("a condition of one branch guards both", "loop", guards, "_invariant_conditions",
                " if c in present]", "]", "pass 'lower-blocks'", TWO_GUARDS, "lower-blocks"),
    SourceFault("a parallel loop misses its end", "kernel", lower_loop_to_kernel,
                "FunctionLowering._parallel", "writer.constant(each.trip_count)",
                "writer.constant(each.trip_count - 1)", "pass 'lower-loop-to-kernel'", TILED,
                KERNEL),
    SourceFault("operands of an instruction are exchanged", "emitter", emit_arith, "_float_binary",
                "{left}, {right}", "{right}, {left}", "the LLVM emitter", TILED, KERNEL),
    SourceFault("two live buffers share memory", "memory plan", memory_layout, "Request.meets",
                "return ", "return False and ", "pass 'plan-memory'", HOST, "plan-memory"),
]  # fmt: skip
