// RUN: tcopt %s -p split-choices | filecheck %s

// The loop is split at the border: vectors entirely past it need no select; the one across it does.
// CHECK-LABEL: loop.func @reflected
// CHECK:      loop.for %j = 0 to 1 {
// CHECK:        arith.select
// CHECK:      loop.for %j = 0 to 14 {
// CHECK-NEXT:   loop.for %l = 0 to 16 vectorized {
// CHECK-NEXT:     %[[x:.*]] = loop.load %x[%j * 16 + %l + 13] : memref<240xf32>
// CHECK-NEXT:     loop.store %[[x]], %y[%j * 16 + %l + 16] : memref<240xf32>
loop.func @reflected(%x: memref<240xf32>, %y: memref<240xf32>) {
  loop.for %j = 0 to 15 {
    loop.for %l = 0 to 16 vectorized {
      %i = loop.index [%j * 16 + %l - 3]
      %zero = arith.constant 0 : index
      %c = arith.cmpi slt, %i, %zero : index
      %a = loop.load %x[%j * -16 + %l * -1 + 3] else 0.0 : memref<240xf32>
      %b = loop.load %x[%j * 16 + %l - 3] else 0.0 : memref<240xf32>
      %v = arith.select %c, %a, %b : f32
      loop.store %v, %y[%j * 16 + %l] : memref<240xf32>
    }
  }
}

// A border between iterations leaves no select; conjunctions are decided too.
// CHECK-LABEL: loop.func @joined
// CHECK:      loop.for %i = 0 to 4 {
// CHECK-NEXT:   loop.load %x[%i * -1 + 7] : memref<8xf32>
// CHECK:      loop.for %i = 0 to 8 {
// CHECK-NEXT:   loop.load %x[%i] : memref<8xf32>
// CHECK-NOT:  arith.select
loop.func @joined(%x: memref<8xf32>, %y: memref<12xf32>) {
  loop.for %i = 0 to 12 {
    %four = arith.constant 4 : index
    %eight = arith.constant 8 : index
    %place = loop.index [%i - 4]
    %inside = arith.cmpi sge, %i, %four : index
    %below = arith.cmpi slt, %place, %eight : index
    %c = arith.andi %inside, %below : i1
    %a = loop.load %x[%i - 4] else 0.0 : memref<8xf32>
    %b = loop.load %x[%i * -1 + 7] else 0.0 : memref<8xf32>
    %v = arith.select %c, %a, %b : f32
    loop.store %v, %y[%i] : memref<12xf32>
  }
}

// A loop where most iterations would keep their select is not split; neither are selects on data.
// CHECK-LABEL: loop.func @mixed
// CHECK:      loop.for %j = 0 to 3 {
// CHECK-COUNT-2: arith.select
// CHECK-NOT:  loop.for %j
loop.func @mixed(%x: memref<48xf32>, %n: memref<48xindex>, %y: memref<48xf32>) {
  loop.for %j = 0 to 3 {
    loop.for %l = 0 to 48 vectorized {
      %i = loop.index [%j + %l - 24]
      %zero = arith.constant 0 : index
      %c = arith.cmpi slt, %i, %zero : index
      %a = loop.load %x[%l] : memref<48xf32>
      %b = loop.load %x[%l * -1 + 47] : memref<48xf32>
      %v = arith.select %c, %a, %b : f32
      %own = loop.load %n[%l] : memref<48xindex>
      %d = arith.cmpi slt, %own, %zero : index
      %w = arith.select %d, %v, %b : f32
      loop.store %w, %y[%l] : memref<48xf32>
    }
  }
}

// A read with a default is split too; the interior needs no bounds checks.
// CHECK-LABEL: loop.func @zeros
// CHECK:      loop.for %j = 0 to 1 {
// CHECK:        loop.load %x[%l - 3] else 0.000000e+00
// CHECK:      loop.for %j = 0 to 14 {
// CHECK-NEXT:   loop.for %l = 0 to 16 vectorized {
// CHECK-NEXT:     loop.load %x[%j * 16 + %l + 13] : memref<240xf32>
loop.func @zeros(%x: memref<240xf32>, %y: memref<240xf32>) {
  loop.for %j = 0 to 15 {
    loop.for %l = 0 to 16 vectorized {
      %v = loop.load %x[%j * 16 + %l - 3] else 0.0 : memref<240xf32>
      loop.store %v, %y[%j * 16 + %l] : memref<240xf32>
    }
  }
}

// Lanes with indices that divide are read one by one, each in its part.
// CHECK-LABEL: loop.func @pixels
// CHECK:      loop.for %l = 0 to 6 unrolled {
// CHECK-NEXT:   loop.load %x[%l floordiv 3 * -3 + %l mod 3 + 6] : memref<24xf32>
// CHECK:      loop.for %l = 0 to 10 unrolled {
// CHECK-NEXT:   loop.load %x[%l] : memref<24xf32>
loop.func @pixels(%x: memref<24xf32>, %y: memref<16xf32>) {
  loop.for %l = 0 to 16 vectorized {
    %six = arith.constant 6 : index
    %c = arith.cmpi slt, %l, %six : index
    %a = loop.load %x[%l floordiv 3 * -3 + %l mod 3 + 6] else 0.0 : memref<24xf32>
    %b = loop.load %x[%l - 6] else 0.0 : memref<24xf32>
    %v = arith.select %c, %a, %b : f32
    loop.store %v, %y[%l] : memref<16xf32>
  }
}
