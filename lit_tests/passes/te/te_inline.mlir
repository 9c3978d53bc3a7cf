// RUN: tcopt %s -p te-inline | filecheck %s
// RUN: tcopt %s -p 'te-inline{inline-padding=false}' | filecheck %s --check-prefix=NOPAD
// RUN: tcopt %s -p 'te-inline{max-ops=0}' | filecheck %s --check-prefix=STRICT

// A chain of elementwise stages becomes one stage.
// CHECK-LABEL: te.func @chain
// CHECK-NEXT:    %c = te.compute "c" [%i = 8] : tensor<8xf32> {
// CHECK-NEXT:      %0 = te.read %x[%i] : tensor<8xf32>
// CHECK-NEXT:      %1 = math.exp %0 : f32
// CHECK-NEXT:      %2 = math.tanh %1 : f32
// CHECK-NEXT:      te.yield %2 : f32
// CHECK-NEXT:    }
// CHECK-NEXT:    te.return %c
te.func @chain(%x: tensor<8xf32>) -> tensor<8xf32> {
  %b = te.compute "b" [%i = 8] : tensor<8xf32> {
    %0 = te.read %x[%i] : tensor<8xf32>
    %1 = math.exp %0 : f32
    te.yield %1 : f32
  }
  %c = te.compute "c" [%i = 8] : tensor<8xf32> {
    %0 = te.read %b[%i] : tensor<8xf32>
    %1 = math.tanh %0 : f32
    te.yield %1 : f32
  }
  te.return %c : tensor<8xf32>
}

// The interior of a border stays a stage, which can write in place.
// CHECK-LABEL: te.func @border
// CHECK-NEXT:    %e = te.compute "e"
// CHECK:         %p = te.compute "p"
te.func @border(%x: tensor<4xf32>) -> tensor<6xf32> {
  %e = te.compute "e" [%i = 4] : tensor<4xf32> {
    %0 = te.read %x[%i] : tensor<4xf32>
    %1 = math.exp %0 : f32
    te.yield %1 : f32
  }
  %p = te.compute "p" [%i = 6] : tensor<6xf32> {
    %0 = te.read %e[%i - 1] else 0.0 : tensor<4xf32>
    te.yield %0 : f32
  }
  te.return %p : tensor<6xf32>
}

// Index expressions compose and simplify: a transpose of a flattened tensor.
// CHECK-LABEL: te.func @indices
// CHECK-NEXT:    %t = te.compute "t" [%i = 4, %j = 6] : tensor<4x6xf32> {
// CHECK-NEXT:      %0 = te.read %x[%j, %i] : tensor<6x4xf32>
te.func @indices(%x: tensor<6x4xf32>) -> tensor<4x6xf32> {
  %f = te.compute "f" [%n = 24] : tensor<24xf32> {
    %0 = te.read %x[%n floordiv 4, %n mod 4] : tensor<6x4xf32>
    te.yield %0 : f32
  }
  %t = te.compute "t" [%i = 4, %j = 6] : tensor<4x6xf32> {
    %0 = te.read %f[%j * 4 + %i] : tensor<24xf32>
    te.yield %0 : f32
  }
  te.return %t : tensor<4x6xf32>
}

// A guarded read of a computed stage becomes a select, and inner reads get guards.
// CHECK-LABEL: te.func @guard
// CHECK-NEXT:    %q = te.compute "q" [%i = 10] : tensor<10xf32> {
// CHECK-NEXT:      %0 = te.read %x[%i - 1] else 0.000000e+00 : tensor<8xf32>
// CHECK-NEXT:      %1 = math.exp %0 : f32
// CHECK-NEXT:      %2 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %3 = te.index [%i - 1]
// CHECK-NEXT:      %4 = arith.constant 0 : index
// CHECK-NEXT:      %5 = arith.cmpi sge, %3, %4 : index
// CHECK-NEXT:      %6 = arith.constant 8 : index
// CHECK-NEXT:      %7 = arith.cmpi slt, %3, %6 : index
// CHECK-NEXT:      %8 = arith.andi %5, %7 : i1
// CHECK-NEXT:      %9 = arith.select %8, %1, %2 : f32
// CHECK-NEXT:      %10 = arith.negf %9 : f32
// CHECK-NEXT:      te.yield %10 : f32
te.func @guard(%x: tensor<8xf32>) -> tensor<10xf32> {
  %e = te.compute "e" [%i = 8] : tensor<8xf32> {
    %0 = te.read %x[%i] : tensor<8xf32>
    %1 = math.exp %0 : f32
    te.yield %1 : f32
  }
  %p = te.compute "p" [%i = 10] : tensor<10xf32> {
    %0 = te.read %e[%i - 1] else 2.0 : tensor<8xf32>
    te.yield %0 : f32
  }
  %q = te.compute "q" [%i = 10] : tensor<10xf32> {
    %0 = te.read %p[%i] : tensor<10xf32>
    %1 = arith.negf %0 : f32
    te.yield %1 : f32
  }
  te.return %q : tensor<10xf32>
}

// Padding is inlined into a pooling, unless the option forbids it.
// CHECK-LABEL: te.func @pool
// CHECK-NEXT:    %m = te.compute "m" [%i = 8] reduce [%k = 3] max : tensor<8xf32> {
// CHECK-NEXT:      %0 = te.read %x[%i + %k - 1] else -inf : tensor<8xf32>
// NOPAD-LABEL: te.func @pool
// NOPAD-NEXT:    te.compute "p"
// NOPAD:         te.compute "m"
te.func @pool(%x: tensor<8xf32>) -> tensor<8xf32> {
  %p = te.compute "p" [%i = 10] : tensor<10xf32> {
    %0 = te.read %x[%i - 1] else -inf : tensor<8xf32>
    te.yield %0 : f32
  }
  %m = te.compute "m" [%i = 8] reduce [%k = 3] max : tensor<8xf32> {
    %0 = te.read %p[%i + %k] : tensor<10xf32>
    te.yield %0 : f32
  }
  te.return %m : tensor<8xf32>
}

// A convolution reads its padded input repeatedly, so the padding stays a stage.
// CHECK-LABEL: te.func @conv
// CHECK-NEXT:    te.compute "p"
// CHECK:         te.compute "c"
te.func @conv(%x: tensor<8xf32>, %w: tensor<3xf32>) -> tensor<8xf32> {
  %p = te.compute "p" [%i = 10] : tensor<10xf32> {
    %0 = te.read %x[%i - 1] else 0.0 : tensor<8xf32>
    te.yield %0 : f32
  }
  %c = te.compute "c" [%i = 8] reduce [%k = 3] sum : tensor<8xf32> {
    %0 = te.read %p[%i + %k] : tensor<10xf32>
    %1 = te.read %w[%k] : tensor<3xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %c : tensor<8xf32>
}

// A stage with two users is recomputed in both if it is cheap, up to `max-ops`.
// CHECK-LABEL: te.func @twice
// CHECK-NOT:     te.compute "n"
// STRICT-LABEL: te.func @twice
// STRICT-NEXT:   te.compute "n"
te.func @twice(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %n = te.compute "n" [%i = 8] : tensor<8xf32> {
    %0 = te.read %x[%i] : tensor<8xf32>
    %1 = arith.negf %0 : f32
    te.yield %1 : f32
  }
  %a = te.compute "a" [%i = 8] : tensor<8xf32> {
    %0 = te.read %n[%i] : tensor<8xf32>
    %1 = math.exp %0 : f32
    te.yield %1 : f32
  }
  %b = te.compute "b" [%i = 8] : tensor<8xf32> {
    %0 = te.read %n[%i] : tensor<8xf32>
    %1 = math.tanh %0 : f32
    te.yield %1 : f32
  }
  te.return %a, %b : tensor<8xf32>, tensor<8xf32>
}

// A stage without users is removed; one that is returned stays.
// CHECK-LABEL: te.func @unused
// CHECK-NEXT:    te.compute "kept"
// CHECK-NOT:     te.compute
// CHECK:         te.return
te.func @unused(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = te.compute "kept" [%i = 8] : tensor<8xf32> {
    %0 = te.read %x[%i] : tensor<8xf32>
    te.yield %0 : f32
  }
  %b = te.compute "dead" [%i = 8] : tensor<8xf32> {
    %0 = te.read %a[%i] : tensor<8xf32>
    te.yield %0 : f32
  }
  te.return %a : tensor<8xf32>
}

// A table transform reads several adjacent elements of a pad, and the next element reads them
// again: the pad is computed once.
// CHECK-LABEL: te.func @transform
// CHECK-NEXT:    te.compute "pad"
te.func @transform(%x: tensor<9xf32>) -> tensor<5x3xf32> {
  %p = te.compute "pad" [%i = 12] : tensor<12xf32> {
    %0 = te.read %x[%i - 1] else 0.0 : tensor<9xf32>
    te.yield %0 : f32
  }
  %t = te.compute "rows" [%s = 5, %i = 3] : tensor<5x3xf32> {
    %0 = te.read %p[%s * 2] : tensor<12xf32>
    %1 = te.index [%i * 2]
    %2 = table.scale %0 by %1 of [1.0, 2.0, 0.5, 1.0, 0.5, 0.5] : f32
    %3 = te.read %p[%s * 2 + 1] : tensor<12xf32>
    %4 = te.index [%i * 2 + 1]
    %5 = table.scale %3 by %4 of [1.0, 2.0, 0.5, 1.0, 0.5, 0.5] : f32
    %6 = arith.addf %2, %5 : f32
    te.yield %6 : f32
  }
  te.return %t : tensor<5x3xf32>
}

// Diamonds of expensive operations become one expression, in which repeated reads of one element
// are computed once.
// CHECK-LABEL: te.func @diamond
// CHECK-NEXT:    te.compute "d"
// CHECK:         math.exp
// CHECK-NOT:     math.exp
// CHECK-NOT:     te.compute
te.func @diamond(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = te.compute "a" [%i = 8] : tensor<8xf32> {
    %0 = te.read %x[%i] : tensor<8xf32>
    %1 = math.exp %0 : f32
    te.yield %1 : f32
  }
  %b = te.compute "b" [%i = 8] : tensor<8xf32> {
    %0 = te.read %a[%i] : tensor<8xf32>
    %1 = math.tanh %0 : f32
    te.yield %1 : f32
  }
  %c = te.compute "c" [%i = 8] : tensor<8xf32> {
    %0 = te.read %a[%i] : tensor<8xf32>
    %1 = te.read %b[%i] : tensor<8xf32>
    %2 = arith.addf %0, %1 : f32
    te.yield %2 : f32
  }
  %d = te.compute "d" [%i = 8] : tensor<8xf32> {
    %0 = te.read %a[%i] : tensor<8xf32>
    %1 = te.read %c[%i] : tensor<8xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %d : tensor<8xf32>
}

// A transform is not inlined into an epilogue with functions that reads it twice, but the cheap
// start of the epilogue fuses with it; a cheap epilogue with a diamond fuses completely.
// CHECK-LABEL: te.func @transformed
// CHECK-NEXT:    te.compute "sum"
// CHECK:         table.scale
// CHECK:         te.compute "silu"
// CHECK-NOT:     te.compute
// CHECK:         te.return
te.func @transformed(%x: tensor<10xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %t = te.compute "rows" [%i = 8] : tensor<8xf32> {
    %0 = te.read %x[%i + 2] : tensor<10xf32>
    %1 = te.index [%i mod 2]
    %2 = table.scale %0 by %1 of [0.5, 0.25] : f32
    te.yield %2 : f32
  }
  %s = te.compute "sum" [%i = 8] : tensor<8xf32> {
    %0 = te.read %t[%i] : tensor<8xf32>
    %1 = te.read %b[%i] : tensor<8xf32>
    %2 = arith.addf %0, %1 : f32
    te.yield %2 : f32
  }
  %g = te.compute "gate" [%i = 8] : tensor<8xf32> {
    %0 = te.read %s[%i] : tensor<8xf32>
    %1 = math.tanh %0 : f32
    te.yield %1 : f32
  }
  %y = te.compute "silu" [%i = 8] : tensor<8xf32> {
    %0 = te.read %s[%i] : tensor<8xf32>
    %1 = te.read %g[%i] : tensor<8xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %y : tensor<8xf32>
}

// CHECK-LABEL: te.func @short
// CHECK-NEXT:    te.compute "square"
// CHECK-NOT:     te.compute
// CHECK:         te.return
te.func @short(%x: tensor<10xf32>) -> tensor<8xf32> {
  %t = te.compute "rows" [%i = 8] : tensor<8xf32> {
    %0 = te.read %x[%i + 2] : tensor<10xf32>
    %1 = te.index [%i mod 2]
    %2 = table.scale %0 by %1 of [0.5, 0.25] : f32
    te.yield %2 : f32
  }
  %n = te.compute "n" [%i = 8] : tensor<8xf32> {
    %0 = te.read %t[%i] : tensor<8xf32>
    %1 = arith.negf %0 : f32
    te.yield %1 : f32
  }
  %y = te.compute "square" [%i = 8] : tensor<8xf32> {
    %0 = te.read %t[%i] : tensor<8xf32>
    %1 = te.read %n[%i] : tensor<8xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %y : tensor<8xf32>
}

// A read that interleaves two vectors is computed once, for all its users.
// CHECK-LABEL: te.func @woven
// CHECK: te.compute "across"
// CHECK: te.compute "down"
te.func @woven(%x: tensor<9x9xf32>) -> tensor<16x16xf32> {
  %a = te.compute "across" [%h = 9, %w = 16] : tensor<9x16xf32> {
    %0 = te.read %x[%h, %w floordiv 2] : tensor<9x9xf32>
    %1 = te.read %x[%h, (%w + 1) floordiv 2] : tensor<9x9xf32>
    %2 = arith.addf %0, %1 : f32
    te.yield %2 : f32
  }
  %d = te.compute "down" [%h = 16, %w = 16] : tensor<16x16xf32> {
    %0 = te.read %a[%h floordiv 2, %w] : tensor<9x16xf32>
    %1 = te.read %a[(%h + 1) floordiv 2, %w] : tensor<9x16xf32>
    %2 = arith.addf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %d : tensor<16x16xf32>
}

// A single element has no neighbours to interleave with.
// CHECK-LABEL: te.func @single
// CHECK-NOT: "scale"
te.func @single(%x: tensor<f32>) -> tensor<8xf32> {
  %a = te.compute "scale" [] : tensor<f32> {
    %0 = te.read %x[] : tensor<f32>
    %1 = arith.addf %0, %0 : f32
    te.yield %1 : f32
  }
  %d = te.compute "spread" [%w = 8] : tensor<8xf32> {
    %0 = te.read %a[] : tensor<f32>
    te.yield %0 : f32
  }
  te.return %d : tensor<8xf32>
}

// Rows shorter than a vector are interleaved in a stage of their own before functions, so that
// these vectorise across rows.
// CHECK-LABEL: te.func @narrow
// CHECK: te.compute "weave"
// CHECK: math.tanh
te.func @narrow(%x: tensor<9x4xf32>) -> tensor<9x7xf32> {
  %a = te.compute "weave" [%h = 9, %w = 7] : tensor<9x7xf32> {
    %0 = te.read %x[%h, %w floordiv 2] : tensor<9x4xf32>
    te.yield %0 : f32
  }
  %d = te.compute "tanh" [%h = 9, %w = 7] : tensor<9x7xf32> {
    %0 = te.read %a[%h, %w] : tensor<9x7xf32>
    %1 = math.tanh %0 : f32
    te.yield %1 : f32
  }
  te.return %d : tensor<9x7xf32>
}

// Without functions there is one stage, as for rows of whole vectors.
// CHECK-LABEL: te.func @cheap
// CHECK-NOT: "weave"
te.func @cheap(%x: tensor<9x4xf32>) -> tensor<9x7xf32> {
  %a = te.compute "weave" [%h = 9, %w = 7] : tensor<9x7xf32> {
    %0 = te.read %x[%h, %w floordiv 2] : tensor<9x4xf32>
    te.yield %0 : f32
  }
  %d = te.compute "double" [%h = 9, %w = 7] : tensor<9x7xf32> {
    %0 = te.read %a[%h, %w] : tensor<9x7xf32>
    %1 = arith.addf %0, %0 : f32
    te.yield %1 : f32
  }
  te.return %d : tensor<9x7xf32>
}

// -----

// A unit that reduces values in its memories needs them converted in a stage before.
// CHECK-LABEL: te.func @in_registers
// CHECK-NEXT:    %c = te.compute "c"
// CHECK:         %m = te.compute "m"
// CHECK-NEXT:      te.read %c
te.func @in_registers(%x: tensor<8x16xi8>) -> tensor<16xi32> attributes {tcopt.target = #target.vdla<results = "i8", features = "alu,load_i8", inp_bytes = 2048, wgt_bytes = 8192, acc_bytes = 8192, uop_bytes = 1024>} {
  %c = te.compute "c" [%i = 8, %j = 16] : tensor<8x16xi32> {
    %0 = te.read %x[%i, %j] : tensor<8x16xi8>
    %1 = arith.extsi %0 : i8 to i32
    te.yield %1 : i32
  }
  %m = te.compute "m" [%j = 16] reduce [%r = 8] max : tensor<16xi32> {
    %0 = te.read %c[%r, %j] : tensor<8x16xi32>
    te.yield %0 : i32
  }
  te.return %m : tensor<16xi32>
}
