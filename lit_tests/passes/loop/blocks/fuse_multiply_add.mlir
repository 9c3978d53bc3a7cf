// RUN: tcopt %s -p fuse-multiply-add --split-input-file | filecheck %s

// A product whose only user is a sum fuses with it, whatever the operand order.
// CHECK-LABEL: loop.func @sums
// CHECK:       [[S:%.*]] = math.fma %a, %b, %c : f32
// CHECK-NEXT:  loop.store [[S]], %y[0]
// CHECK:       [[V:%.*]] = vector.fma %v, %v, %w : vector<4xf32>
// CHECK-NEXT:  loop.store [[V]], %y[0] lanes [1]
loop.func @sums(%x: memref<8xf32>, %y: memref<8xf32>) {
  %a = loop.load %x[0] : memref<8xf32>
  %b = loop.load %x[1] : memref<8xf32>
  %c = loop.load %x[2] : memref<8xf32>
  %p = arith.mulf %a, %b fastmath<contract> : f32
  %s = arith.addf %c, %p fastmath<contract> : f32
  loop.store %s, %y[0] : memref<8xf32>
  %v = loop.load %x[0] lanes [1] : memref<8xf32>, vector<4xf32>
  %w = loop.load %x[4] lanes [1] : memref<8xf32>, vector<4xf32>
  %q = arith.mulf %v, %v fastmath<contract> : vector<4xf32>
  %t = arith.addf %q, %w fastmath<contract> : vector<4xf32>
  loop.store %t, %y[0] lanes [1] : memref<8xf32>, vector<4xf32>
}

// -----

// A product with other users stays, and so does a sum with a conditional term.
// CHECK-LABEL: loop.func @others
// CHECK:       %p = arith.mulf %a, %a fastmath<contract> : f32
// CHECK-NEXT:  arith.addf %p, %p fastmath<contract> : f32
// CHECK:       %q = arith.mulf %a, %a fastmath<contract> : f32
// CHECK-NEXT:  arith.addf %q, %t fastmath<contract> : f32
// CHECK-NOT:   fma
loop.func @others(%x: memref<2xf32>, %y: memref<2xf32>) {
  loop.for %i = 0 to 2 unrolled {
    %a = loop.load %x[%i] : memref<2xf32>
    %p = arith.mulf %a, %a fastmath<contract> : f32
    %s = arith.addf %p, %p fastmath<contract> : f32
    loop.store %s, %y[0] : memref<2xf32>
    %t = table.scale %a by %i of [0.0, 2.0] : f32
    %q = arith.mulf %a, %a fastmath<contract> : f32
    %u = arith.addf %q, %t fastmath<contract> : f32
    loop.store %u, %y[%i] : memref<2xf32>
  }
}

// -----

// Both ops must allow contraction; an exact op rounds separately.
// CHECK-LABEL: loop.func @exact
// CHECK:       arith.addf %c, %p : f32
// CHECK:       arith.addf %c, %q fastmath<contract> : f32
// CHECK:       arith.addf %c, %r : f32
// CHECK-NOT:   fma
loop.func @exact(%x: memref<3xf32>, %y: memref<3xf32>) {
  %a = loop.load %x[0] : memref<3xf32>
  %c = loop.load %x[2] : memref<3xf32>
  %p = arith.mulf %a, %a : f32
  %s = arith.addf %c, %p : f32
  loop.store %s, %y[0] : memref<3xf32>
  %q = arith.mulf %a, %a : f32
  %t = arith.addf %c, %q fastmath<contract> : f32
  loop.store %t, %y[1] : memref<3xf32>
  %r = arith.mulf %a, %a fastmath<contract> : f32
  %u = arith.addf %c, %r : f32
  loop.store %u, %y[2] : memref<3xf32>
}
