// RUN: tcopt %s --verify-diagnostics --split-input-file | filecheck %s

// A loaded value has no bounds, so it must be limited before it indexes a load.
// CHECK: index 0 is computed and may be any of [-9223372036854775808, 9223372036854775807]; limit it to [0, 7], or check it in an enclosing scf.if
loop.func @load(%x: memref<8xf32>, %rows: memref<4xi64>, %y: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    %row = loop.load %rows[%i] : memref<4xi64>
    %at = arith.index_cast %row : i64 to index
    %e = loop.load %x[%at] : memref<8xf32>
    loop.store %e, %y[%i] : memref<4xf32>
  }
}

// -----

// A loaded value must also be limited before it indexes a store.
// CHECK: index 0 is computed and may be any of [-128, 127]
loop.func @store(%x: memref<4xf32>, %rows: memref<4xi8>, %y: memref<8xf32>) {
  loop.for %i = 0 to 4 {
    %row = loop.load %rows[%i] : memref<4xi8>
    %at = arith.index_cast %row : i8 to index
    %e = loop.load %x[%i] : memref<4xf32>
    loop.store %e, %y[%at] : memref<8xf32>
  }
}

// -----

// A value read back from a kernel's own buffer has no known bounds either.
// CHECK: index 0 is computed and may be any of
loop.func @counter(%x: memref<4xf32>, %y: memref<4xf32>) {
  %found = loop.alloc register : memref<1xindex>
  loop.for %i = 0 to 4 {
    %at = loop.load %found[0] : memref<1xindex>
    %e = loop.load %x[%i] : memref<4xf32>
    loop.store %e, %y[%at] : memref<4xf32>
  }
}

// -----

// A loop with a data-dependent trip count has no upper bound on its induction variable.
// CHECK: index 0 is computed and may be any of [0, 9223372036854775806]
loop.func @steps(%count: memref<1xindex>, %y: memref<4xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %end = loop.load %count[0] : memref<1xindex>
  scf.for %i = %zero to %end step %one {
    %e = arith.constant 1.0 : f32
    loop.store %e, %y[%i] : memref<4xf32>
  }
}

// -----

// A bounded term does not make a sum bounded.
// CHECK: index 0 is computed and may be any of [0, 10]
loop.func @sum(%rows: memref<4xi64>, %x: memref<8xf32>, %y: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    %zero = arith.constant 0 : i64
    %last = arith.constant 7 : i64
    %row = loop.load %rows[%i] : memref<4xi64>
    %least = arith.maxsi %row, %zero : i64
    %near = arith.minsi %least, %last : i64
    %at = arith.index_cast %near : i64 to index
    %e = loop.load %x[%at + %i] : memref<8xf32>
    loop.store %e, %y[%i] : memref<4xf32>
  }
}

// -----

// Clamps and enclosing conditions prove that an index is in bounds; a default needs neither.
// CHECK-LABEL: loop.func @limited
loop.func @limited(%x: memref<8xf32>, %rows: memref<4xindex>, %y: memref<8xf32>) {
  loop.for %i = 0 to 4 {
    %row = loop.load %rows[%i] : memref<4xindex>
    %zero = arith.constant 0 : index
    %eight = arith.constant 8 : index
    %last = arith.constant 7 : index
    %one = arith.constant 1 : index
    %least = arith.maxsi %row, %zero : index
    %near = arith.minsi %least, %last : index
    %e = loop.load %x[%near] : memref<8xf32>
    %other = loop.load %x[%row] else 0.0 : memref<8xf32>
    %above = arith.cmpi sge, %row, %zero : index
    %below = arith.cmpi slt, %row, %eight : index
    %inside = arith.andi %above, %below : i1
    scf.if %inside {
      loop.store %e, %y[%row] : memref<8xf32>
      scf.for %k = %zero to %row step %one {
        loop.store %other, %y[%k] : memref<8xf32>
      }
    }
  }
}
