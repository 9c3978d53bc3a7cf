// RUN: tcopt %s -p lower-loop-to-kernel --split-input-file | filecheck %s

// Address sums are split by loop level, with constants last.
// CHECK-LABEL: func.func private @indices
// CHECK:       scf.for %i = %c0 to %c4 step %c1 {
// CHECK-NEXT:    [[I:%.*]] = arith.muli %i, %c8 : index
// CHECK-NEXT:    scf.for %j = %c0 to %c6 step %c1 {
// CHECK-NEXT:      [[IJ:%.*]] = arith.addi [[I]], %j : index
// CHECK-NEXT:      %a = memref.load %x[[[IJ]]] : memref<64xf32>
// CHECK-NEXT:      [[IJ1:%.*]] = arith.addi [[IJ]], %c1 : index
// CHECK-NEXT:      %b = memref.load %x[[[IJ1]]] : memref<64xf32>
loop.func @indices(%x: memref<64xf32>, %y: memref<64xf32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 6 {
      %a = loop.load %x[%i * 8 + %j] : memref<64xf32>
      %b = loop.load %x[%i * 8 + %j + 1] : memref<64xf32>
      %c = arith.mulf %a, %b : f32
      loop.store %c, %y[%j * 8 + %i] : memref<64xf32>
    }
  }
}

// -----

// Perfectly nested parallel loops become one; a guard is an unsigned comparison, which covers both
// bounds.
// CHECK-LABEL: func.func private @parallel
// CHECK:       "scf.parallel"(%c0, %c0, %c4, %c8, %c1, %c1)
// CHECK-NEXT:  ^bb0(%i: index, %j: index):
// CHECK:         arith.addi %{{.*}}, %j : index
// CHECK-NEXT:    [[E:%.*]] = arith.addi %{{.*}}, %{{.*}} : index
// CHECK-NEXT:    [[C:%.*]] = arith.cmpi ult, [[E]], %c30 : index
// CHECK-NEXT:    scf.if [[C]] {
// CHECK-NEXT:      %a = memref.load %x[[[E]]]
loop.func @parallel(%x: memref<30xf32>, %y: memref<30xf32>) {
  loop.for %i = 0 to 4 parallel {
    loop.for %j = 0 to 8 parallel {
      loop.guard ([%i * 8 + %j - 1] in 30) {
        %a = loop.load %x[%i * 8 + %j - 1] : memref<30xf32>
        loop.store %a, %y[%i * 8 + %j - 1] : memref<30xf32>
      }
    }
  }
}

// -----

// A default becomes a branch if the index may be out of bounds.
// CHECK-LABEL: func.func private @default
// CHECK:       %{{.*}} = scf.if %{{.*}} -> (f32) {
// CHECK-NEXT:    [[V:%.*]] = memref.load %x[%{{.*}}] : memref<8xf32>
// CHECK-NEXT:    scf.yield [[V]] : f32
// CHECK-NEXT:  } else {
loop.func @default(%x: memref<8xf32>, %y: memref<8xf32>) {
  loop.for %i = 0 to 8 {
    %a = loop.load %x[%i + 3] else 0.5 : memref<8xf32>
    loop.store %a, %y[%i] : memref<8xf32>
  }
}

// -----

// Every second element of a row that may start out of bounds: masked contiguous loads, then
// shuffles.
// CHECK-LABEL: func.func private @border
// CHECK:       [[A:%.*]] = vector.maskedload %x[%{{.*}}], %{{.*}}, %{{.*}} : memref<40xf32>
// CHECK:       [[B:%.*]] = vector.maskedload %x[%{{.*}}], %{{.*}}, %{{.*}} : memref<40xf32>
// CHECK-NEXT:  vector.shuffle %{{.*}}, [[B]] [0, 1, 2, 3, 9, 11, 13, 15]
// CHECK-NOT:   vector.gather
loop.func @border(%x: memref<40xf32>, %y: memref<24xf32>) {
  loop.for %i = 0 to 3 {
    %a = loop.load %x[%i * 16 - 1] lanes [2] else 0.5 : memref<40xf32>, vector<8xf32>
    loop.store %a, %y[%i * 8] lanes [1] : memref<24xf32>, vector<8xf32>
  }
}

// -----

// Vectors that start within a row of vector length: one load of the row and shuffles.
// CHECK-LABEL: func.func private @rows
// CHECK:       [[R:%.*]] = vector.load %x[%i, %c0] : memref<3x8xf32>, vector<8xf32>
// CHECK-NEXT:  vector.shuffle [[R]], %{{.*}} [8, 8, 0, 1, 2, 3, 4, 5]
// CHECK-NEXT:  vector.shuffle [[R]], %{{.*}} [1, 2, 3, 4, 5, 6, 7, 8]
// CHECK:       [[N:%.*]] = scf.if %{{.*}} -> (vector<8xf32>) {
// CHECK-NEXT:    vector.load %x[%{{.*}}, %c0] : memref<3x8xf32>, vector<8xf32>
// CHECK:       vector.shuffle [[N]], %{{.*}} [7, 8, 8, 8, 8, 8, 8, 8]
// CHECK-NOT:   vector.maskedload
loop.func @rows(%x: memref<3x8xf32>, %y: memref<3x3x8xf32>) {
  loop.for %i = 0 to 3 {
    %a = loop.load %x[%i, -2] lanes [0, 1] else 0.5 : memref<3x8xf32>, vector<8xf32>
    %b = loop.load %x[%i, 1] lanes [0, 1] else 0.5 : memref<3x8xf32>, vector<8xf32>
    %c = loop.load %x[%i - 1, 7] lanes [0, 1] else 0.5 : memref<3x8xf32>, vector<8xf32>
    loop.store %a, %y[%i, 0, 0] lanes [0, 0, 1] : memref<3x3x8xf32>, vector<8xf32>
    loop.store %b, %y[%i, 1, 0] lanes [0, 0, 1] : memref<3x3x8xf32>, vector<8xf32>
    loop.store %c, %y[%i, 2, 0] lanes [0, 0, 1] : memref<3x3x8xf32>, vector<8xf32>
  }
}

// -----

// Vector accesses: contiguous, masked at the end of a row, strided by shuffles, gathered.
// CHECK-LABEL: func.func private @vectors
// CHECK:       [[M:%.*]] = vector.create_mask %{{.*}} : vector<8xi1>
// CHECK:       vector.load %x[%i, %c0] : memref<9x40xf32>, vector<8xf32>
// CHECK:       vector.maskedload %x[%i, %{{.*}}], [[M]], %{{.*}} : memref<9x40xf32>
// CHECK:       vector.shuffle %{{.*}}, %{{.*}} [0, 1, 2, 3, 9, 11, 13, 15]
// CHECK:       vector.gather %x[%c0, %i][%{{.*}}]
// CHECK:       vector.maskedstore
loop.func @vectors(%x: memref<9x40xf32>, %y: memref<9x40xf32>) {
  loop.for %i = 0 to 9 {
    %m = loop.mask ([%i * 4] in 36 step 1) : vector<8xi1>
    %a = loop.load %x[%i, 0] lanes [0, 1] : memref<9x40xf32>, vector<8xf32>
    %b = loop.load %x[%i, %i * 4] lanes [0, 1] mask %m else 1.0 : memref<9x40xf32>, vector<8xf32>
    %c = loop.load %x[%i, %i] lanes [0, 2] : memref<9x40xf32>, vector<8xf32>
    %d = loop.load %x[0, %i] lanes [1, 0] : memref<9x40xf32>, vector<8xf32>
    %e = arith.addf %a, %b : vector<8xf32>
    %f = arith.addf %c, %d : vector<8xf32>
    %g = arith.mulf %e, %f : vector<8xf32>
    loop.store %g, %y[%i, %i * 4] lanes [0, 1] mask %m : memref<9x40xf32>, vector<8xf32>
  }
}

// -----

// A product with a single user that adds it becomes a fused multiply-add.
// CHECK-LABEL: func.func private @fma
// CHECK-NOT:   arith.mulf
// CHECK:       math.fma %a, %b, %c : f32
loop.func @fma(%x: memref<3xf32>) {
  %a = loop.load %x[0] : memref<3xf32>
  %b = loop.load %x[1] : memref<3xf32>
  %c = loop.load %x[2] : memref<3xf32>
  %d = arith.mulf %a, %b fastmath<contract> : f32
  %e = arith.addf %c, %d fastmath<contract> : f32
  loop.store %e, %x[2] : memref<3xf32>
}

// -----

// Exact arithmetic stays exact; ops that allow contraction but were not contracted lose the flag.
// CHECK-LABEL: func.func private @exact
// CHECK-NOT:   fma
// CHECK:       %d = arith.mulf %a, %b : f32
// CHECK-NEXT:  %e = arith.addf %a, %d : f32
// CHECK-NEXT:  %f = arith.subf %e, %b fastmath<nnan> : f32
loop.func @exact(%x: memref<2xf32>) {
  %a = loop.load %x[0] : memref<2xf32>
  %b = loop.load %x[1] : memref<2xf32>
  %d = arith.mulf %a, %b : f32
  %e = arith.addf %a, %d fastmath<reassoc,contract> : f32
  %f = arith.subf %e, %b fastmath<nnan,contract> : f32
  loop.store %f, %x[0] : memref<2xf32>
}

// -----

// Small buffers are on the stack, large ones are freed at the end of their region.
// CHECK-LABEL: func.func private @buffers
// CHECK:       scf.for
// CHECK-NEXT:    memref.alloca() {alignment = 64 : i64} : memref<16xf32>
// CHECK-NEXT:    [[B:%.*]] = memref.alloc() {alignment = 64 : i64} : memref<100000xf32>
// CHECK:         memref.dealloc [[B]] : memref<100000xf32>
loop.func @buffers(%x: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    %s = loop.alloc local : memref<16xf32>
    %b = loop.alloc global : memref<100000xf32>
    %a = loop.load %x[%i] : memref<4xf32>
    loop.store %a, %s[%i] : memref<16xf32>
    loop.store %a, %b[%i] : memref<100000xf32>
  }
}

// -----

// Host calls become calls.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    func.call @k(%x) : (memref<4xf32>) -> ()
loop.func @k(%x: memref<4xf32>) {
  %a = loop.load %x[0] : memref<4xf32>
  loop.store %a, %x[1] : memref<4xf32>
}
func.func @main(%x: memref<4xf32>) {
  loop.call @k(%x) : memref<4xf32>
  func.return
}

// -----

// A prefetch keeps its position; its guard becomes a condition inside the loop.
// CHECK-LABEL: func.func private @near
// CHECK:       scf.for %i
// CHECK:         scf.if
// CHECK-NEXT:      memref.prefetch %x[%{{.*}}, %c0], read, locality<2>, data : memref<9x16xf32>
loop.func @near(%x: memref<9x16xf32>) {
  loop.for %i = 0 to 8 {
    loop.guard ([%i] in 4) {
      loop.prefetch %x[%i + 1, 0] locality 2 : memref<9x16xf32>
    }
  }
}

// -----

// A limit is the bound of a loop, within its largest number of iterations.
// CHECK-LABEL: func.func private @limits
// CHECK:       [[N:%.*]] = memref.load %n[%c0] : memref<1xindex>
// CHECK-DAG:   [[LOW:%.*]] = arith.maxsi [[N]], %c0 : index
// CHECK-DAG:   [[BOUND:%.*]] = arith.minsi [[LOW]], %c8 : index
// CHECK:       scf.for %i = %c0 to [[BOUND]] step %c1 {
// CHECK:       "scf.parallel"(%c0, %c0, %c4, [[BOUND]], %c1, %c1)
// CHECK:       arith.cmpi ult
// CHECK-NEXT:  scf.if
loop.func @limits(%y: memref<8xf32>, %n: memref<1xindex>) {
  %a = arith.constant 1.0 : f32
  %k = loop.load %n[0] : memref<1xindex>
  loop.for %i = 0 to 8 limit %k { loop.store %a, %y[%i] : memref<8xf32> }
  loop.for %j = 0 to 4 parallel {
    loop.for %i = 0 to 8 limit %k parallel { loop.store %a, %y[%i] : memref<8xf32> }
  }
  loop.for %i = 0 to 1 limit %k { loop.store %a, %y[%i] : memref<8xf32> }
}

// -----

// An index that is constant becomes a constant of the type that it is converted to.
// CHECK-LABEL: func.func private @shifts
// CHECK-NOT:   arith.index_cast
// CHECK:       [[TWELVE:%.*]] = arith.constant 12 : i32
// CHECK-NOT:   arith.index_cast
// CHECK:       arith.shrui %{{.*}}, [[TWELVE]] : i32
loop.func @shifts(%x: memref<4xi32>, %y: memref<4xi32>) {
  loop.for %i = 0 to 4 {
    %a = loop.load %x[%i] : memref<4xi32>
    %n = loop.index [12]
    %b = arith.index_cast %n : index to i32
    %c = arith.shrui %a, %b : i32
    loop.store %c, %y[%i] : memref<4xi32>
  }
}
