"""Small programs for faults in the compiler's source, by level."""

from __future__ import annotations

SCALED = """func.func @main(%x: tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32> {
  %w = graph.constant dense<[[[[1.5]], [[-2.0]]], [[[0.5]], [[3.0]]]]> : tensor<2x2x1x1xf32>
  %s = graph.constant dense<[[[0.5]], [[3.0]]]> : tensor<2x1x1xf32>
  %c = graph.conv %x, %w : tensor<1x2x3x3xf32>
  %y = graph.mul %c, %s : tensor<1x2x3x3xf32>
  func.return %y : tensor<1x2x3x3xf32>
}"""
JOINED = """func.func @main(%x: tensor<1x2x4x4xf32>, %w: tensor<4x2x1x1xf32>)
    -> tensor<1x6x4x4xf32> {
  %b = graph.constant dense<[[[1.0]], [[2.0]], [[3.0]], [[4.0]], [[5.0]], [[6.0]]]>
    : tensor<6x1x1xf32>
  %c = graph.conv %x, %w : tensor<1x4x4x4xf32>
  %y = graph.concat %c, %x {axis = 1} : tensor<1x6x4x4xf32>
  %s = graph.add %y, %b : tensor<1x6x4x4xf32>
  func.return %s : tensor<1x6x4x4xf32>
}"""
SLICED = """func.func @main(%x: tensor<9x4xf32>, %w: tensor<4x5xf32>) -> tensor<1x5xf32> {
  %y = graph.tanh %x : tensor<9x4xf32>
  %z = graph.matmul %y, %w : tensor<9x5xf32>
  %s = graph.slice %z {starts = [2, 0]} : tensor<1x5xf32>
  func.return %s : tensor<1x5xf32>
}"""
PADDED = """func.func @main(%x: tensor<1x1x6x6x4xf32>, %w: tensor<1x1x3x3x4x4xf32>)
    -> tensor<1x1x3x3x4xf32> {
  %r = graph.relu %x : tensor<1x1x6x6x4xf32>
  %c = graph.blocked_conv %r, %w {strides = [2, 2], pads = [1, 1, 1, 1]}
    : tensor<1x1x3x3x4xf32>
  func.return %c : tensor<1x1x3x3x4xf32>
}"""
LEAKY = """func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %a = graph.leaky_relu %x {alpha = 0.5 : f64} : tensor<2x3xf32>
  %b = graph.leaky_relu %x {alpha = 0.25 : f64} : tensor<2x3xf32>
  func.return %a, %b : tensor<2x3xf32>, tensor<2x3xf32>
}"""
DENSE = """func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>) -> tensor<8x16xf32> {
  %y = graph.matmul %x, %w : tensor<8x16xf32>
  %r = graph.relu %y : tensor<8x16xf32>
  func.return %r : tensor<8x16xf32>
}"""
GUARDED = """te.func @f(%x: tensor<8xf32>) -> tensor<10xf32> {
  %e = te.compute "e" [%i = 8] : tensor<8xf32> {
    %0 = te.read %x[%i] : tensor<8xf32>
    %1 = math.exp %0 : f32
    te.yield %1 : f32
  }
  %p = te.compute "p" [%i = 10] : tensor<10xf32> {
    %0 = te.read %e[%i - 1] else 0.0 : tensor<8xf32>
    %1 = arith.addf %0, %0 : f32
    te.yield %1 : f32
  }
  te.return %p : tensor<10xf32>
}"""
ROWS = """te.func @f(%x: tensor<8x5xf32>) -> tensor<4x5xf32> {
  %y = te.compute "y" [%i = 4, %j = 5] : tensor<4x5xf32> {
    %0 = te.read %x[%i + 1, %j] : tensor<8x5xf32>
    te.yield %0 : f32
  }
  te.return %y : tensor<4x5xf32>
}"""
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
SPLIT = (
    PRODUCT.replace("10", "12")
    + """  %io, %ii = sched.split %i by [?, 4]
}"""
)
UPDATED = """loop.func @f(%x: memref<10xf32>, %y: memref<10xf32>) {
  loop.for %i = 0 to 10 {
    loop.block "b" (%v: spatial 10 = %i) {
      %0 = loop.load %x[%v] : memref<10xf32>
      %1 = loop.load %y[%v] : memref<10xf32>
      %2 = arith.subf %0, %1 : f32
      loop.store %2, %y[%v] : memref<10xf32>
    }
  }
}
sched.sequence @f_schedule for @f {
  %b = sched.get_block "b"
  %i = sched.get_loops %b
  %io, %ii = sched.split %i by [?, 4]
}"""
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
MASKED = """loop.func @f(%x: memref<10xf32>, %y: memref<10xf32>) {
  loop.for %i = 0 to 2 {
    loop.for %j = 0 to 8 vectorized {
      loop.guard ([%i * 8 + %j] in 10) {
        %0 = loop.load %x[%i * 8 + %j] : memref<10xf32>
        loop.store %0, %y[%i * 8 + %j] : memref<10xf32>
      }
    }
  }
}"""
TOTAL = """loop.func @f(%x: memref<8xf32>, %y: memref<1xf32>) {
  %t = loop.alloc local : memref<1xf32>
  %z = arith.constant 1.0 : f32
  loop.store %z, %t[0] : memref<1xf32>
  loop.for %i = 0 to 8 {
    %0 = loop.load %x[%i] : memref<8xf32>
    %1 = loop.load %t[0] : memref<1xf32>
    %2 = arith.addf %0, %1 : f32
    loop.store %2, %t[0] : memref<1xf32>
  }
  %3 = loop.load %t[0] : memref<1xf32>
  loop.store %3, %y[0] : memref<1xf32>
}"""
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
