// RUN: tcopt %s --split-input-file --verify-diagnostics | filecheck %s

// An access has an index for each dimension of its buffer.
// CHECK: 1 indices for a buffer of rank 2
loop.func @rank(%x: memref<4x4xf32>) {
  loop.for %i = 0 to 4 {
    %a = loop.load %x[%i] : memref<4x4xf32>
  }
}

// -----

// Vector accesses say how each index moves from lane to lane.
// CHECK: a vector access gives the lane step of each dimension
loop.func @lanes(%x: memref<4x4xf32>) {
  %a = loop.load %x[0, 0] lanes [1] : memref<4x4xf32>, vector<4xf32>
}

// -----

// The value is an element of the buffer.
// CHECK: value type differs from the buffer's element type
"builtin.module"() ({
  loop.func @element(%x: memref<4xf32>) {
    %a = arith.constant 1 : i32
    "loop.store"(%a, %x) <{map = affine_map<() -> (0)>, operandSegmentSizes = array<i32: 1, 1, 0, 0>}> : (i32, memref<4xf32>) -> ()
  }
}) : () -> ()

// -----

// Block names are unique in a function, so that schedules can use them.
// CHECK: two blocks are named "b"
loop.func @names(%x: memref<4xf32>) {
  loop.block "b" () {
    %a = loop.load %x[0] : memref<4xf32>
  }
  loop.block "b" () {
    %a = loop.load %x[0] : memref<4xf32>
  }
}

// -----

// A reduction does not choose where it is stored by a reduce variable.
// CHECK: a reduce variable indexes a store
loop.func @reduce(%x: memref<4xf32>) {
  %a = arith.constant 1.0 : f32
  loop.for %i = 0 to 4 {
    loop.block "b" (%r: reduce 4 = %i) {
      loop.store %a, %x[%r] : memref<4xf32>
    }
  }
}

// -----

// An init belongs to a reduction.
// CHECK: loop.init belongs to a block with a reduce variable
loop.func @init(%x: memref<4xf32>) {
  %a = arith.constant 1.0 : f32
  loop.for %i = 0 to 4 {
    loop.block "b" (%v: spatial 4 = %i) {
      loop.init {
        loop.store %a, %x[%v] : memref<4xf32>
      }
    }
  }
}

// -----

// Thread loops name their axis.
// CHECK: a thread axis go together
"builtin.module"() ({
  loop.func @thread(%x: memref<4xf32>) {
    "loop.for"() <{extent = 4 : i64, kind = #loop.kind thread}> ({
    ^bb0(%i: index):
      %a = loop.load %x[%i] : memref<4xf32>
    }) : () -> ()
  }
}) : () -> ()

// -----

// A slice needs a dimension to slice along.
// CHECK: has no first dimension
func.func @scalar(%x: memref<f32>, %t: index) {
  %0 = loop.slice %x[%t] : memref<f32>
  return
}

// -----

// What a border leaves alone lies in its buffer.
// CHECK: the box [1] to [5] leaves memref<4xf32>
loop.func @border(%x: memref<4xf32>) {
  loop.border %x outside [1 to 5] = 0.0 : memref<4xf32>
}

// -----

// An intrinsic is one that is declared.
// CHECK: there is no intrinsic 'dot'; one of bf16_dot, dp4a, {{.*}}, u8s8_dot
loop.func @f(%x: memref<4xf32>) {
  loop.intrin "dot" outs(%x[0] : memref<4xf32>) ins(%x[0] : memref<4xf32>)
}

// -----

// It has a number of operands.
// CHECK: "bf16_dot" takes 1 output and 2 inputs
loop.func @f(%x: memref<4xbf16>, %y: memref<4xf32>) {
  loop.intrin "bf16_dot" outs(%y[0] : memref<4xf32>) ins(%x[0] by [1] : memref<4xbf16>)
}

// -----

// Operands have its element types.
// CHECK: operand 'a' holds bf16, not f32
loop.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  loop.intrin "bf16_dot" outs(%y[0] : memref<4xf32>)
    ins(%x[0] by [1] : memref<4xf32>, %x[0] by [1] : memref<4xf32>)
}

// -----

// Operands say how their indices move along each dimension of a tile.
// CHECK: operand 'b' needs 1 lists of 2 steps, one list for each dimension of its tile
loop.func @f(%x: memref<4xbf16>, %w: memref<4x4xbf16>, %y: memref<4xf32>) {
  loop.intrin "bf16_dot" outs(%y[0] : memref<4xf32>)
    ins(%x[0] by [1] : memref<4xbf16>, %w[0, 0] : memref<4x4xbf16>)
}

// -----

// There are no masks for vectors of several dimensions.
// CHECK: mask and else belong to vectors of one dimension
loop.func @f(%x: memref<4x4xf32>) {
  %a = loop.load %x[0, 0] lanes [1, 0] [0, 1] else 0.0 : memref<4x4xf32>, vector<4x4xf32>
}

// -----

// There are four ways to keep what is prefetched.
// CHECK: locality is a number from 0 to 3
loop.func @near(%x: memref<4xf32>) {
  loop.prefetch %x[0] locality 4 : memref<4xf32>
}
