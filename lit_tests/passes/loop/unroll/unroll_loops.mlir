// RUN: tcopt %s -p unroll-loops --split-input-file | filecheck %s

// Iteration numbers fold into accesses; nested unrolled loops are unrolled at once.
// CHECK-LABEL: loop.func @nested
// CHECK-NOT:   unrolled
// CHECK:       %a = loop.load %x[%j * 4] : memref<16xf32>
// CHECK-NEXT:  loop.store %a, %y[%j] : memref<64xf32>
// CHECK-NEXT:  %a_1 = loop.load %x[%j * 4 + 1] : memref<16xf32>
// CHECK-NEXT:  loop.store %a_1, %y[%j + 16] : memref<64xf32>
// CHECK-NEXT:  %a_2 = loop.load %x[%j * 4 + 2] : memref<16xf32>
// CHECK-NEXT:  loop.store %a_2, %y[%j + 32] : memref<64xf32>
// CHECK-NEXT:  %a_3 = loop.load %x[%j * 4 + 3] : memref<16xf32>
// CHECK-NEXT:  loop.store %a_3, %y[%j + 48] : memref<64xf32>
// CHECK-NEXT:  }
loop.func @nested(%x: memref<16xf32>, %y: memref<64xf32>) {
  loop.for %j = 0 to 4 {
    loop.for %p = 0 to 2 unrolled {
      loop.for %q = 0 to 2 unrolled {
        %a = loop.load %x[%j * 4 + %p * 2 + %q] : memref<16xf32>
        loop.store %a, %y[(%p * 2 + %q) * 16 + %j] : memref<64xf32>
      }
    }
  }
}

// -----

// Guards are decided for each copy: always, never, or not statically.
// CHECK-LABEL: loop.func @guards
// CHECK:       %a = loop.load %x[%j * 3] : memref<7xf32>
// CHECK:       loop.guard ([%j * 3 + 1] in 7) {
// CHECK:       loop.guard ([%j * 3 + 2] in 7) {
// CHECK-NOT:   loop.load %x[%j * 3 + 3]
loop.func @guards(%x: memref<7xf32>, %y: memref<9xf32>) {
  loop.for %j = 0 to 3 {
    loop.for %i = 0 to 4 unrolled {
      loop.guard ([%j * 3 + %i] in 7, [%i] in 3) {
        %a = loop.load %x[%j * 3 + %i] : memref<7xf32>
        loop.store %a, %y[%j * 3 + %i] : memref<9xf32>
      }
    }
  }
}

// -----

// A mask that is full in a copy is removed there.
// CHECK-LABEL: loop.func @masks
// CHECK:       loop.load %x[0] lanes [1] : memref<12xf32>, vector<8xf32>
// CHECK:       [[M:%.*]] = loop.mask ([8] in 12 step 1) : vector<8xi1>
// CHECK-NEXT:  loop.load %x[8] lanes [1] mask [[M]] : memref<12xf32>, vector<8xf32>
loop.func @masks(%x: memref<12xf32>, %y: memref<12xf32>) {
  loop.for %i = 0 to 2 unrolled {
    %m = loop.mask ([%i * 8] in 12 step 1) : vector<8xi1>
    %a = loop.load %x[%i * 8] lanes [1] mask %m : memref<12xf32>, vector<8xf32>
    loop.store %a, %y[%i * 8] lanes [1] mask %m : memref<12xf32>, vector<8xf32>
  }
}

// -----

// A copy without active lanes is removed; an accumulation keeps its value.
// CHECK-LABEL: loop.func @lanes_off
// CHECK:       loop.store %{{.*}}, %y[8] lanes [1] mask
// CHECK:       loop.store %{{.*}}, %s[0] lanes [1]
// CHECK-NOT:   loop.store
// CHECK-NOT:   loop.load
loop.func @lanes_off(%x: memref<12xf32>, %y: memref<12xf32>) {
  %s = loop.alloc register : memref<16xf32>
  loop.for %i = 0 to 2 unrolled {
    %m = loop.mask ([%i * 8 + 8] in 12 step 1) : vector<8xi1>
    %a = loop.load %x[%i * 8 + 8] lanes [1] mask %m : memref<12xf32>, vector<8xf32>
    %b = loop.load %s[%i * 8] lanes [1] : memref<16xf32>, vector<8xf32>
    %c = arith.addf %a, %b : vector<8xf32>
    %d = loop.load %s[%i * 8] lanes [1] : memref<16xf32>, vector<8xf32>
    %e = arith.select %m, %c, %d : vector<8xi1>, vector<8xf32>
    loop.store %e, %s[%i * 8] lanes [1] : memref<16xf32>, vector<8xf32>
    loop.store %a, %y[%i * 8 + 8] lanes [1] mask %m : memref<12xf32>, vector<8xf32>
  }
}

// -----

// Copies reuse loads and broadcasts of earlier copies until the buffer is written.
// CHECK-LABEL: loop.func @shared
// CHECK:       %w = loop.load %b[0] : memref<4xf32>
// CHECK-NEXT:  %s = vector.broadcast %w : f32 to vector<4xf32>
// CHECK-NEXT:  %v = loop.load %a[0]
// CHECK-NEXT:  %p = arith.mulf %v, %s
// CHECK-NEXT:  loop.store %p, %c[0]
// CHECK-NEXT:  %v_1 = loop.load %a[4]
// CHECK-NEXT:  %p_1 = arith.mulf %v_1, %s
// CHECK-NEXT:  loop.store %p_1, %c[4]
// CHECK-NEXT:  %z = loop.load %c[0]
// CHECK-NEXT:  loop.store %z, %b[1]
// CHECK-NEXT:  %w_1 = loop.load %b[0]
// CHECK-NEXT:  %s_1 = vector.broadcast %w_1
// CHECK-NEXT:  %p_2 = arith.mulf %v, %s_1
loop.func @shared(%a: memref<8xf32>, %b: memref<4xf32>, %c: memref<16xf32>) {
  loop.for %j = 0 to 2 unrolled {
    loop.for %i = 0 to 2 unrolled {
      %w = loop.load %b[0] : memref<4xf32>
      %s = vector.broadcast %w : f32 to vector<4xf32>
      %v = loop.load %a[%i * 4] lanes [1] : memref<8xf32>, vector<4xf32>
      %p = arith.mulf %v, %s : vector<4xf32>
      loop.store %p, %c[%j * 8 + %i * 4] lanes [1] : memref<16xf32>, vector<4xf32>
    }
    %z = loop.load %c[0] : memref<16xf32>
    loop.store %z, %b[%j + 1] : memref<4xf32>
  }
}

// -----

// For an accumulator in registers, only the first copy loads and the last one stores.
// CHECK-LABEL: loop.func @sum_in_register
// CHECK:       [[A:%.*]] = loop.load %s[0] : memref<2xf32>
// CHECK:       [[B:%.*]] = arith.addf [[A]], %{{.*}} : f32
// CHECK-NOT:   %s
// CHECK:       [[C:%.*]] = arith.addf [[B]], %{{.*}} : f32
// CHECK-NEXT:  loop.store [[C]], %s[0] : memref<2xf32>
// CHECK-NOT:   %s
loop.func @sum_in_register(%x: memref<2xf32>) {
  %s = loop.alloc register : memref<2xf32>
  loop.for %i = 0 to 2 unrolled {
    %a = loop.load %s[0] : memref<2xf32>
    %b = loop.load %x[%i] : memref<2xf32>
    %c = arith.addf %a, %b : f32
    loop.store %c, %s[0] : memref<2xf32>
  }
}

// -----

// A remaining loop sees earlier stores, and so does an access with a variable index.
// CHECK-LABEL: loop.func @register_in_loop
// CHECK:       loop.store %{{.*}}, %s[0] : memref<2xf32>
// CHECK-NEXT:  loop.for %j = 0 to 2
// CHECK-NEXT:    loop.load %s[%j] : memref<2xf32>
// CHECK:       loop.load %s[0] : memref<2xf32>
loop.func @register_in_loop(%x: memref<2xf32>, %y: memref<2xf32>) {
  %s = loop.alloc register : memref<2xf32>
  loop.for %i = 0 to 1 unrolled {
    %a = loop.load %x[%i] : memref<2xf32>
    loop.store %a, %s[0] : memref<2xf32>
    loop.for %j = 0 to 2 {
      %b = loop.load %s[%j] : memref<2xf32>
      loop.store %b, %y[%j] : memref<2xf32>
    }
    %c = loop.load %s[0] : memref<2xf32>
    loop.store %c, %x[0] : memref<2xf32>
  }
}

// -----

// Overlapping accesses to a register buffer see each other's stores.
// CHECK-LABEL: loop.func @pieces
// CHECK:       [[V:%.*]] = loop.load %x[0] lanes [1]
// CHECK-NEXT:  loop.store [[V]], %s[0] lanes [1] : memref<8xf32>, vector<8xf32>
// CHECK-NEXT:  [[A:%.*]] = loop.load %s[3] : memref<8xf32>
// CHECK-NEXT:  loop.store [[A]], %s[5] : memref<8xf32>
// CHECK-NEXT:  [[W:%.*]] = loop.load %s[0] lanes [1]
// CHECK-NEXT:  loop.store [[W]], %x[0] lanes [1]
loop.func @pieces(%x: memref<8xf32>) {
  %s = loop.alloc register : memref<8xf32>
  loop.for %i = 0 to 1 unrolled {
    %v = loop.load %x[%i] lanes [1] : memref<8xf32>, vector<8xf32>
    loop.store %v, %s[%i] lanes [1] : memref<8xf32>, vector<8xf32>
    %a = loop.load %s[%i + 3] : memref<8xf32>
    loop.store %a, %s[%i + 5] : memref<8xf32>
    %w = loop.load %s[%i] lanes [1] : memref<8xf32>, vector<8xf32>
    loop.store %w, %x[%i] lanes [1] : memref<8xf32>, vector<8xf32>
  }
}

// -----

// Integer tables fold like float ones: terms vanish, are added, subtracted or multiplied.
// CHECK-LABEL: loop.func @integers
// CHECK:       %a = loop.load %x[] : memref<i16>
// CHECK-NEXT:  %b = loop.load %z[] : memref<i16>
// CHECK:       loop.store %b, %y[0] : memref<4xi16>
// CHECK:       %[[SUM:.*]] = arith.addi %b, %a : i16
// CHECK-NEXT:  loop.store %[[SUM]], %y[1]
// CHECK:       %[[LESS:.*]] = arith.subi %b, %a : i16
// CHECK-NEXT:  loop.store %[[LESS]], %y[2]
// CHECK:       %[[FIVE:.*]] = arith.muli %a, %{{.*}} : i16
// CHECK-NEXT:  %[[MORE:.*]] = arith.addi %b, %[[FIVE]] : i16
// CHECK-NEXT:  loop.store %[[MORE]], %y[3]
loop.func @integers(%x: memref<i16>, %z: memref<i16>, %y: memref<4xi16>) {
  %a = loop.load %x[] : memref<i16>
  %b = loop.load %z[] : memref<i16>
  loop.for %i = 0 to 4 unrolled {
    %t = table.scale %a by %i of [0.0, 1.0, -1.0, -5.0] : i16
    %s = arith.addi %b, %t : i16
    loop.store %s, %y[%i] : memref<4xi16>
  }
}

// -----

// The limit of an inner loop may differ between copies.
// CHECK-LABEL: loop.func @limits
// CHECK:       %0 = arith.constant 3 : index
// CHECK-NEXT:  loop.for %i = 0 to 8 limit %0 {
// CHECK:       %1 = arith.constant 5 : index
// CHECK-NEXT:  loop.for %i = 0 to 8 limit %1 {
loop.func @limits(%y: memref<2x8xf32>) {
  %a = arith.constant 1.0 : f32
  loop.for %j = 0 to 2 unrolled {
    %k = loop.index [%j * 2 + 3]
    loop.for %i = 0 to 8 limit %k {
      loop.store %a, %y[%j, %i] : memref<2x8xf32>
    }
  }
}
