// RUN: tcopt %s --split-input-file | filecheck %s
// RUN: tcopt %s --split-input-file | tcopt --split-input-file | filecheck %s

// Loops of every kind; only what differs from a serial loop is printed.
// CHECK-LABEL: loop.func @loops(%y: memref<8xf32>) {
// CHECK:         loop.for %i = 0 to 8 {
// CHECK:         loop.for %i = 0 to 8 parallel {
// CHECK:         loop.for %i = 0 to 8 vectorized {
// CHECK:         loop.for %i = 0 to 8 unrolled attributes {note = "why"} {
// CHECK:         loop.for %i = 0 to 8 thread threadIdx.x {
// CHECK:         loop.for %i = 0 to 8 virtual {
loop.func @loops(%y: memref<8xf32>) {
  %a = arith.constant 1.0 : f32
  loop.for %i = 0 to 8 { loop.store %a, %y[%i] : memref<8xf32> }
  loop.for %i = 0 to 8 parallel { loop.store %a, %y[%i] : memref<8xf32> }
  loop.for %i = 0 to 8 vectorized { loop.store %a, %y[%i] : memref<8xf32> }
  loop.for %i = 0 to 8 unrolled attributes {note = "why"} { loop.store %a, %y[%i] : memref<8xf32> }
  loop.for %i = 0 to 8 thread threadIdx.x { loop.store %a, %y[%i] : memref<8xf32> }
  loop.for %i = 0 to 8 virtual { loop.store %a, %y[%i] : memref<8xf32> }
}

// -----

// A serial or parallel loop may have a limit: iterations from it on do not run.
// CHECK-LABEL: loop.func @limits
// CHECK:         %k = loop.index [5]
// CHECK:         loop.for %i = 0 to 8 limit %k {
// CHECK:         loop.for %i = 0 to 8 limit %k parallel attributes {note = "why"} {
loop.func @limits(%y: memref<8xf32>) {
  %a = arith.constant 1.0 : f32
  %k = loop.index [5]
  loop.for %i = 0 to 8 limit %k { loop.store %a, %y[%i] : memref<8xf32> }
  loop.for %i = 0 to 8 limit %k parallel attributes {note = "why"} { loop.store %a, %y[%i] : memref<8xf32> }
}

// -----

// A block binds its variables to expressions over loops and may begin with an init.
// CHECK-LABEL: loop.func @block
// CHECK:       loop.block "sum" (%v: spatial 30 = %i * 8 + %j, %r: reduce 4 = %k) {
// CHECK-NEXT:    loop.init {
// CHECK:         loop.load %x[%v, %r - 1] else 0.000000e+00 : memref<30x4xf32>
loop.func @block(%x: memref<30x4xf32>, %y: memref<30xf32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 8 {
      loop.for %k = 0 to 4 {
        loop.block "sum" (%v: spatial 30 = %i * 8 + %j, %r: reduce 4 = %k) {
          loop.init {
            %zero = arith.constant 0.0 : f32
            loop.store %zero, %y[%v] : memref<30xf32>
          }
          %a = loop.load %x[%v, %r - 1] else 0.0 : memref<30x4xf32>
          %b = loop.load %y[%v] : memref<30xf32>
          %c = arith.addf %a, %b : f32
          loop.store %c, %y[%v] : memref<30xf32>
        }
      }
    }
  }
}

// -----

// Lowered forms: guards, masks, vector accesses, index values.
// CHECK-LABEL: loop.func @lowered
// CHECK:       %t = loop.alloc local : memref<8xf32>
// CHECK:       loop.guard ([%i * 8 + 1] in 30, [%i floordiv 2] in 1) {
// CHECK:       %m = loop.mask ([%i * 8] in 30 step 1, [%i] in 3 step 0) : vector<8xi1>
// CHECK:       %a = loop.load %x[%i * 8, (%i + 1) mod 4] lanes [1, 0] mask %m else 5.000000e-01 : memref<30x4xf32>, vector<8xf32>
// CHECK:       loop.store %a, %t[0] lanes [1] : memref<8xf32>, vector<8xf32>
// CHECK:       %n = loop.index [%i * 4 + 3]
loop.func @lowered(%x: memref<30x4xf32>) {
  %t = loop.alloc local : memref<8xf32>
  loop.for %i = 0 to 4 {
    loop.guard ([%i * 8 + 1] in 30, [%i floordiv 2] in 1) {
      %m = loop.mask ([%i * 8] in 30 step 1, [%i] in 3 step 0) : vector<8xi1>
      %a = loop.load %x[%i * 8, (%i + 1) mod 4] lanes [1, 0] mask %m else 0.5 : memref<30x4xf32>, vector<8xf32>
      loop.store %a, %t[0] lanes [1] : memref<8xf32>, vector<8xf32>
      %n = loop.index [%i * 4 + 3]
    }
  }
}

// -----

// The host function names weights and calls functions.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %w = loop.weight @fc.weight : memref<4xf32>
// CHECK-NEXT:    loop.call @f(%w, %y) : memref<4xf32>, memref<4xf32>
loop.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  %a = loop.load %x[0] : memref<4xf32>
  loop.store %a, %y[0] : memref<4xf32>
}
func.func @main(%y: memref<4xf32>) {
  %w = loop.weight @fc.weight : memref<4xf32>
  loop.call @f(%w, %y) : memref<4xf32>, memref<4xf32>
  func.return
}

// -----

// Buffers on an accelerator, barriers, tokens and intrinsics.
// CHECK-LABEL: loop.func @hardware
// CHECK:       loop.alloc shared : memref<2x4xbf16>
// CHECK:       loop.barrier
// CHECK:       loop.push_token "load" -> "compute"
// CHECK:       loop.pop_token "load" -> "compute"
// CHECK:       loop.intrin "bf16_dot" outs(%y[%i] : memref<4xf32>) ins(%x[%i * 2] by [1] : memref<8xbf16>, %s[0, 0] by [1, 0] : memref<2x4xbf16>)
loop.func @hardware(%x: memref<8xbf16>, %y: memref<4xf32>) {
  %s = loop.alloc shared : memref<2x4xbf16>
  loop.for %i = 0 to 4 {
    loop.barrier
    loop.push_token "load" -> "compute"
    loop.pop_token "load" -> "compute"
    loop.intrin "bf16_dot" outs(%y[%i] : memref<4xf32>)
      ins(%x[%i * 2] by [1] : memref<8xbf16>, %s[0, 0] by [1, 0] : memref<2x4xbf16>)
  }
}

// -----

// A border names the interior that it leaves untouched.
// CHECK-LABEL: loop.func @border
// CHECK-NEXT:    loop.border %x outside [0 to 1, 1 to 7] = 0.000000e+00 : memref<1x8xf32>
// CHECK-NEXT:    loop.border %y outside [] = -1 : memref<i32>
loop.func @border(%x: memref<1x8xf32>, %y: memref<i32>) {
  loop.border %x outside [0 to 1, 1 to 7] = 0.0 : memref<1x8xf32>
  loop.border %y outside [] = -1 : memref<i32>
}

// -----

// A multi-dimensional vector has lane steps for each of its dimensions.
// CHECK-LABEL: loop.func @tiles
// CHECK:         %a = loop.load %x[%i, 0, 0] lanes [0, 1, 0] [0, 0, 1] : memref<4x16x2xf32>, vector<16x2xf32>
// CHECK-NEXT:    loop.store %a, %y[0, 0, %i] lanes [0, 1, 0] [1, 0, 0] : memref<2x16x4xf32>, vector<16x2xf32>
loop.func @tiles(%x: memref<4x16x2xf32>, %y: memref<2x16x4xf32>) {
  loop.for %i = 0 to 4 {
    %a = loop.load %x[%i, 0, 0] lanes [0, 1, 0] [0, 0, 1] : memref<4x16x2xf32>, vector<16x2xf32>
    loop.store %a, %y[0, 0, %i] lanes [0, 1, 0] [1, 0, 0] : memref<2x16x4xf32>, vector<16x2xf32>
  }
}

// -----

// A prefetch may be out of bounds.
// CHECK-LABEL: loop.func @near
// CHECK:       loop.prefetch %x[%i + 1, %i * 4 mod 8] locality 2 : memref<4x8xf32>
loop.func @near(%x: memref<4x8xf32>) {
  loop.for %i = 0 to 4 {
    loop.prefetch %x[%i + 1, (%i * 4) mod 8] locality 2 : memref<4x8xf32>
  }
}

// -----

// A function over sizes has an index argument for each; domains of blocks may be sizes.
// CHECK-LABEL: loop.func @sizes(%x: memref<9x4xf32, #size.dims<s0[1:9], 4>>, %s0: index) attributes {size.symbols = #size.dims<s0[1:9]>} {
// CHECK:         loop.for %i = 0 to 9 limit %s0 {
// CHECK:         loop.block "flip" (%v: spatial s0[1:9] = %i, %w: spatial 4 = %j) {
// CHECK-NEXT:      loop.load %x[%v * -1 + %s0 - 1, %w]
loop.func @sizes(%x: memref<9x4xf32, #size.dims<s0[1:9], 4>>, %s0: index) attributes {size.symbols = #size.dims<s0[1:9]>} {
  loop.for %i = 0 to 9 limit %s0 {
    loop.for %j = 0 to 4 {
      loop.block "flip" (%v: spatial s0[1:9] = %i, %w: spatial 4 = %j) {
        %a = loop.load %x[%v * -1 + %s0 - 1, %w] : memref<9x4xf32, #size.dims<s0[1:9], 4>>
        loop.store %a, %x[%v, %w] : memref<9x4xf32, #size.dims<s0[1:9], 4>>
      }
    }
  }
}
