// RUN: tcopt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// An access needs an index for each dimension of its buffer.
// CHECK: 1 indices for a buffer of rank 2
loop.func @rank(%x: memref<4x4xf32>) {
  loop.for %i = 0 to 4 {
    %a = loop.load %x[%i] : memref<4x4xf32>
  }
}

// -----

// A vector access needs a lane step for each index.
// CHECK: a vector access needs a lane step for each dimension
loop.func @lanes(%x: memref<4x4xf32>) {
  %a = loop.load %x[0, 0] lanes [1] : memref<4x4xf32>, vector<4xf32>
}

// -----

// A stored value must have the buffer's element type.
// CHECK: value type differs from the buffer's element type
"builtin.module"() ({
  loop.func @element(%x: memref<4xf32>) {
    %a = arith.constant 1 : i32
    "loop.store"(%a, %x) <{map = affine_map<() -> (0)>, operandSegmentSizes = array<i32: 1, 1, 0, 0>}> : (i32, memref<4xf32>) -> ()
  }
}) : () -> ()

// -----

// Unrolled and vectorised loops run all of their iterations.
// CHECK: a loop of kind 'unrolled' has no limit
loop.func @limit(%y: memref<8xf32>) {
  %a = arith.constant 1.0 : f32
  %k = loop.index [5]
  loop.for %i = 0 to 8 limit %k unrolled { loop.store %a, %y[%i] : memref<8xf32> }
}

// -----

// Block names must be unique in a function, so that schedules can refer to them.
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

// A reduce variable must not index a store.
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

// Only a reduction may have an init.
// CHECK: loop.init needs a block with a reduce variable
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

// A thread loop must name its axis.
// CHECK: requires a thread axis, and other kinds have none
"builtin.module"() ({
  loop.func @thread(%x: memref<4xf32>) {
    "loop.for"() <{extent = 4 : i64, kind = #loop.kind thread}> ({
    ^bb0(%i: index):
      %a = loop.load %x[%i] : memref<4xf32>
    }) : () -> ()
  }
}) : () -> ()

// -----

// A rank-0 buffer cannot be sliced.
// CHECK: has no first dimension
func.func @scalar(%x: memref<f32>, %t: index) {
  %0 = loop.slice %x[%t] : memref<f32>
  return
}

// -----

// The interior of a border must be inside its buffer.
// CHECK: the box [1] to [5] exceeds memref<4xf32>
loop.func @border(%x: memref<4xf32>) {
  loop.border %x outside [1 to 5] = 0.0 : memref<4xf32>
}

// -----

// An intrinsic must be declared.
// CHECK: there is no intrinsic 'dot'; one of bf16_dot, dp4a, {{.*}}, u8s8_dot
loop.func @f(%x: memref<4xf32>) {
  loop.intrin "dot" outs(%x[0] : memref<4xf32>) ins(%x[0] : memref<4xf32>)
}

// -----

// An intrinsic call needs the declared number of operands.
// CHECK: "bf16_dot" takes 1 output and 2 inputs
loop.func @f(%x: memref<4xbf16>, %y: memref<4xf32>) {
  loop.intrin "bf16_dot" outs(%y[0] : memref<4xf32>) ins(%x[0] by [1] : memref<4xbf16>)
}

// -----

// Operands need the declared element types.
// CHECK: operand 'a' holds bf16, not f32
loop.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  loop.intrin "bf16_dot" outs(%y[0] : memref<4xf32>)
    ins(%x[0] by [1] : memref<4xf32>, %x[0] by [1] : memref<4xf32>)
}

// -----

// Each operand needs index steps for every dimension of its tile.
// CHECK: operand 'b' needs 1 lists of 2 steps, one list for each dimension of its tile
loop.func @f(%x: memref<4xbf16>, %w: memref<4x4xbf16>, %y: memref<4xf32>) {
  loop.intrin "bf16_dot" outs(%y[0] : memref<4xf32>)
    ins(%x[0] by [1] : memref<4xbf16>, %w[0, 0] : memref<4x4xbf16>)
}

// -----

// Masks are not supported for multi-dimensional vectors.
// CHECK: mask and else are legal for vectors of one dimension only
loop.func @f(%x: memref<4x4xf32>) {
  %a = loop.load %x[0, 0] lanes [1, 0] [0, 1] else 0.0 : memref<4x4xf32>, vector<4x4xf32>
}

// -----

// Prefetch locality has four levels.
// CHECK: locality must be an integer from 0 to 3
loop.func @near(%x: memref<4xf32>) {
  loop.prefetch %x[0] locality 4 : memref<4xf32>
}

// -----

// The modulus must be a positive constant.
// CHECK: index expressions allow products with constants and division by positive ones
loop.func @f(%x: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    loop.block "b" (%v: spatial 4 = %i mod 0) {
    }
  }
}

// -----

// The modulus must also be a positive constant in the map of an access.
// CHECK: 'loop.load': the access map has 'mod' by anything but a positive constant
loop.func @f(%x: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    %a = loop.load %x[%i mod 0] : memref<4xf32>
  }
}

// -----

// A product of two variables is not affine.
// CHECK: index expressions allow products with constants and division by positive ones
loop.func @f(%x: memref<16xf32>) {
  loop.for %i = 0 to 4 {
    %a = loop.load %x[%i * %i] : memref<16xf32>
  }
}

// -----

// Access maps cannot have symbols.
// CHECK: 'loop.index': the access map must have one dimension per index operand
"loop.func"() <{sym_name = "f", function_type = () -> ()}> ({
^bb0:
  %0 = "loop.index"() <{map = affine_map<()[s0] -> (s0)>}> : () -> index
}) : () -> ()

// -----

// Index constants must fit in 64 bits.
// CHECK: 'loop.index': the access map has the constant 18446744073709551616, which does not fit 64 bits
loop.func @f() {
  %0 = loop.index [18446744073709551616]
}

// -----

// A block uses loop variables only through its own variables, so that schedules can reorder loops.
// CHECK: 'loop.block': the body uses %i of a loop outside; bind an iteration variable to it
loop.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    loop.block "copy" (%v: spatial 4 = %i) {
      %a = loop.load %x[%i] : memref<4xf32>
      loop.store %a, %y[%v] : memref<4xf32>
    }
  }
}

// -----

// A read that is certainly out of bounds is rejected.
// CHECK: 'loop.load': index 0 ranges over [1, 4], outside of [0, 3]
loop.func @f(%x: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    %a = loop.load %x[%i + 1] : memref<4xf32>
  }
}

// -----

// A store indexed by block variables is checked over the domain, not over the rounded-up tiles.
// CHECK: 'loop.store': index 0 ranges over [2, 11], outside of [0, 9]
loop.func @f(%y: memref<10xf32>) {
  %zero = arith.constant 0.0 : f32
  loop.for %io = 0 to 3 {
    loop.for %ii = 0 to 4 {
      loop.block "b" (%v: spatial 10 = %io * 4 + %ii) {
        loop.store %zero, %y[%v + 2] : memref<10xf32>
      }
    }
  }
}

// -----

// The bounds check covers all lanes of a vector.
// CHECK: 'loop.load': index 1 ranges over [4, 11], outside of [0, 9]
loop.func @f(%x: memref<2x10xf32>) {
  %a = loop.load %x[0, 4] lanes [0, 1] : memref<2x10xf32>, vector<8xf32>
}

// -----

// The bounds check covers all elements of an intrinsic's tile.
// CHECK: 'loop.intrin': index 0 ranges over [3, 4], outside of [0, 3]
loop.func @f(%x: memref<4xbf16>, %y: memref<4xf32>) {
  loop.intrin "bf16_dot" outs(%y[0] : memref<4xf32>)
    ins(%x[3] by [1] : memref<4xbf16>, %x[0] by [1] : memref<4xbf16>)
}

// -----

// Buffers must have static shapes.
// CHECK: 'loop.func': memref<?xf32> has a dynamic dimension
loop.func @f(%x: memref<?xf32>) {
}

// -----

// Known attributes are verified.
// CHECK: 'loop.alloc': storage_align must be a dimension, a factor and an offset
loop.func @f() {
  %t = loop.alloc global {storage_align = array<i64: 16>} : memref<4x4xf32>
}

// -----

// A called function must exist and have the types of the call.
// CHECK: 'loop.call': @f has type (memref<4xf32>) -> (), but is called with (memref<8xf32>) -> ()
loop.func @f(%x: memref<4xf32>) {
}
func.func @main(%x: memref<8xf32>) {
  loop.call @f(%x) : memref<8xf32>
  func.return
}

// -----

// The error for a missing property names the op itself, not the function around it.
// CHECK: 'loop.block': property 'block_name' expected in operation 'loop.block'
"loop.func"() <{sym_name = "f", function_type = () -> ()}> ({
  "loop.block"() <{kinds = [], extents = array<i64>, bindings = affine_map<() -> ()>}> ({
  ^bb0:
  }) : () -> ()
}) : () -> ()

// -----

// A default must have the buffer's element type.
// CHECK: 'loop.load': the default's type differs from the buffer's element type
"loop.func"() <{sym_name = "f", function_type = (memref<4xf32>) -> ()}> ({
^bb0(%x: memref<4xf32>):
  %0 = "loop.load"(%x) <{map = affine_map<() -> (9)>, default = 0 : i32, operandSegmentSizes = array<i32: 1, 0, 0>}> : (memref<4xf32>) -> f32
}) : () -> ()

// -----

// The extent of a loop must have the right type.
// CHECK: 'loop.for': {{.*}}i32
"loop.func"() <{sym_name = "f", function_type = () -> ()}> ({
^bb0:
  "loop.for"() <{extent = 8 : i32, kind = #loop<kind serial>}> ({
  ^bb1(%i: index):
  }) : () -> ()
}) : () -> ()

// -----

// Printing an invalid op in an error message does not itself fail.
// CHECK: invalid-ir: 'loop.intrin':
"builtin.module"() ({
^bb0(%c: memref<16xf32>):
  "loop.func"() <{sym_name = "dot", function_type = () -> ()}> ({
    %z = "arith.constant"() <{value = 0 : index}> : () -> index
    "loop.intrin"(%c, %c, %c, %z, %z) <{intrin = "bf16_dot", map = affine_map<(d0, d1) -> (d0, d1, d1)>, steps = [[], [array<i64: 1>], [array<i64: 1>]], operandSegmentSizes = array<i32: 1, 2, 1>}> : (memref<16xf32>, memref<16xf32>, memref<16xf32>, index, index) -> ()
  }) : () -> ()
}) : () -> ()

// -----

// Operands of an accelerator intrinsic must be in the declared memories.
// CHECK: operand 'x' is in acc_input, not in acc_register
loop.func @f(%y: memref<16xi32>) {
  %a = loop.alloc acc_input : memref<16xi32>
  loop.intrin "vdla_store_acc_1x16" outs(%y[0] by [1] : memref<16xi32>) ins(%a[0] by [1] : memref<16xi32>)
}

// -----

// An operand that the intrinsic moves to or from must be in main memory.
// CHECK: operand 'out' is in acc_register, which is not memory
loop.func @f() {
  %a = loop.alloc acc_register : memref<16xi32>
  %b = loop.alloc acc_register : memref<16xi32>
  loop.intrin "vdla_store_acc_1x16" outs(%b[0] by [1] : memref<16xi32>) ins(%a[0] by [1] : memref<16xi32>)
}

// -----

// Only buffers in shared and in accelerator memories have slots.
// CHECK: buffers in register have no slots
loop.func @f() {
  %a = loop.alloc register {slots = 2 : i64} : memref<16xi32>
}

// -----

// Only buffers in accelerator memories have offsets.
// CHECK: buffers in shared are not placed by programs
loop.func @f() {
  %a = loop.alloc shared {places = array<i64: 0>} : memref<16xi32>
}

// -----

// Asynchronous copies fill shared memory.
// CHECK: buffers in register have no asynchronous copies
loop.func @f() {
  %a = loop.alloc register {async} : memref<16xi32>
}

// -----

// A buffer needs at least one slot.
// CHECK: slots must be an integer of at least 1
loop.func @f() {
  %a = loop.alloc acc_input {slots = 0 : i64} : memref<16xi8>
}

// -----

// Each slot needs an offset.
// CHECK: places must have an entry for each of 2 slots
loop.func @f() {
  %a = loop.alloc acc_input {slots = 2 : i64, places = array<i64: 0>} : memref<16xi8>
}

// -----

// The size of a block's variable must be one of the function's.
// CHECK: a block's extent is n[1:9], not of a size argument
loop.func @undeclared(%x: memref<9xf32>) {
  loop.for %i = 0 to 9 {
    loop.block "b" (%v: spatial n[1:9] = %i) {
      %a = loop.load %x[%v] : memref<9xf32>
      loop.store %a, %x[%v] : memref<9xf32>
    }
  }
}

// -----

// Accesses are checked against the live extents, at the least and the greatest size.
// CHECK: index 0 ranges over [1, 9], outside of [0, 8]
loop.func @behind(%x: memref<9xf32, #size.dims<s0[1:9]>>, %s0: index) attributes {size.symbols = #size.dims<s0[1:9]>} {
  loop.for %i = 0 to 9 {
    loop.block "b" (%v: spatial s0[1:9] = %i) {
      %a = loop.load %x[%v + 1] : memref<9xf32, #size.dims<s0[1:9]>>
      loop.store %a, %x[%v] : memref<9xf32, #size.dims<s0[1:9]>>
    }
  }
}

// -----

// CHECK: index 0 ranges over [1, 1], outside of [0, 0]
loop.func @least(%x: memref<9xf32, #size.dims<s0[1:9]>>, %s0: index) attributes {size.symbols = #size.dims<s0[1:9]>} {
  %a = loop.load %x[1] : memref<9xf32, #size.dims<s0[1:9]>>
}
