// RUN: tcopt %s -p vectorize --split-input-file | filecheck %s

// A guard on the lane becomes a mask; lane-invariant values stay scalar.
// CHECK-LABEL: loop.func @scale
// CHECK:       [[M:%.*]] = loop.mask ([%i * 16] in 100 step 1) : vector<16xi1>
// CHECK-NEXT:  %a = loop.load %x[%i * 16] lanes [1] mask [[M]] : memref<100xf32>, vector<16xf32>
// CHECK-NEXT:  %b = loop.load %s[0] : memref<1xf32>
// CHECK-NEXT:  [[V:%.*]] = vector.broadcast %b : f32 to vector<16xf32>
// CHECK-NEXT:  %c = arith.mulf %a, [[V]] : vector<16xf32>
// CHECK-NEXT:  loop.store %c, %y[%i * 16] lanes [1] mask [[M]] : memref<100xf32>, vector<16xf32>
loop.func @scale(%x: memref<100xf32>, %s: memref<1xf32>, %y: memref<100xf32>) {
  loop.for %i = 0 to 7 {
    loop.for %j = 0 to 16 vectorized {
      loop.guard ([%i * 16 + %j] in 100) {
        %a = loop.load %x[%i * 16 + %j] : memref<100xf32>
        %b = loop.load %s[0] : memref<1xf32>
        %c = arith.mulf %a, %b : f32
        loop.store %c, %y[%i * 16 + %j] : memref<100xf32>
      }
    }
  }
}

// -----

// A masked store to a local buffer becomes a blend, so that the buffer can be promoted to a
// register.
// CHECK-LABEL: loop.func @private
// CHECK:       [[M:%.*]] = loop.mask
// CHECK:       [[OLD:%.*]] = loop.load %t[0] lanes [1] : memref<8xf32>, vector<8xf32>
// CHECK-NEXT:  [[NEW:%.*]] = arith.select [[M]], %a, [[OLD]] : vector<8xi1>, vector<8xf32>
// CHECK-NEXT:  loop.store [[NEW]], %t[0] lanes [1] : memref<8xf32>, vector<8xf32>
loop.func @private(%x: memref<20xf32>, %y: memref<20xf32>) {
  loop.for %i = 0 to 3 {
    %t = loop.alloc register : memref<8xf32>
    loop.for %j = 0 to 8 vectorized {
      loop.guard ([%i * 8 + %j] in 20) {
        %a = loop.load %x[%i * 8 + %j] : memref<20xf32>
        loop.store %a, %t[%j] : memref<8xf32>
        %b = loop.load %t[%j] : memref<8xf32>
        loop.store %b, %y[%i * 8 + %j] : memref<20xf32>
      }
    }
  }
}

// -----

// Lanes may step through any dimension; a default stays a default.
// CHECK-LABEL: loop.func @steps
// CHECK:       loop.load %x[0, %i - 1] lanes [1, 2] else 0.000000e+00 : memref<8x32xf32>, vector<8xf32>
loop.func @steps(%x: memref<8x32xf32>, %y: memref<8xf32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 8 vectorized {
      %a = loop.load %x[%j, %j * 2 + %i - 1] else 0.0 : memref<8x32xf32>
      loop.store %a, %y[%j] : memref<8xf32>
    }
  }
}

// -----

// The loop variable as a value is a vector of integers.
// CHECK-LABEL: loop.func @iota
// CHECK:       arith.constant dense<[0, 3, 6, 9]> : vector<4xindex>
// CHECK:       arith.index_cast %{{.*}} : vector<4xindex> to vector<4xi32>
loop.func @iota(%y: memref<8x4xi32>) {
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 4 vectorized {
      %k = loop.index [%j * 3 + %i]
      %a = arith.index_cast %k : index to i32
      loop.store %a, %y[%i, %j] : memref<8x4xi32>
    }
  }
}

// -----

// Loops that cannot be vectorised stay serial, with a remark.
// CHECK-LABEL: loop.func @serial
// CHECK:       loop.for %j = 0 to 8 attributes {not_vectorized = "iterations depend on each other"} {
// CHECK:       loop.for %j = 0 to 8 attributes {not_vectorized = "an index divides by something that varies with the lane"} {
// CHECK:       loop.for %j = 0 to 800 attributes {not_vectorized = "800 lanes are more than 64"} {
loop.func @serial(%x: memref<800xf32>, %y: memref<800xf32>) {
  loop.for %j = 0 to 8 vectorized {
    %a = loop.load %y[%j] : memref<800xf32>
    loop.store %a, %y[%j + 1] : memref<800xf32>
  }
  loop.for %j = 0 to 8 vectorized {
    %a = loop.load %x[%j floordiv 3] : memref<800xf32>
    loop.store %a, %y[%j] : memref<800xf32>
  }
  loop.for %j = 0 to 800 vectorized {
    %a = loop.load %x[%j] : memref<800xf32>
    loop.store %a, %y[%j] : memref<800xf32>
  }
}

// -----

// A sum of all lanes into one element is reduced first; inactive lanes contribute 0.
// CHECK-LABEL: loop.func @total
// CHECK:       %a = loop.load %x[%i * 16] lanes [1] mask {{.*}} : memref<100xf32>, vector<16xf32>
// CHECK:       arith.constant -0.000000e+00 : f32
// CHECK:       [[T:%.*]] = arith.select {{.*}} : vector<16xi1>, vector<16xf32>
// CHECK-NEXT:  [[R:%.*]] = vector.reduction <add>, [[T]] fastmath<reassoc> : vector<16xf32> into f32
// CHECK-NEXT:  [[S:%.*]] = loop.load %s[0] : memref<1xf32>
// CHECK-NEXT:  [[C:%.*]] = arith.addf [[S]], [[R]] fastmath<reassoc> : f32
// CHECK-NEXT:  loop.store [[C]], %s[0] : memref<1xf32>
loop.func @total(%x: memref<100xf32>, %s: memref<1xf32>) {
  loop.for %i = 0 to 7 {
    loop.for %j = 0 to 16 vectorized {
      loop.guard ([%i * 16 + %j] in 100) {
        %a = loop.load %x[%i * 16 + %j] : memref<100xf32>
        %b = loop.load %s[0] : memref<1xf32>
        %c = arith.addf %b, %a fastmath<reassoc> : f32
        loop.store %c, %s[0] : memref<1xf32>
      }
    }
  }
}

// -----

// A lane-invariant term is added once for each lane.
// CHECK-LABEL: loop.func @same
// CHECK:       %a = loop.load %x[%i] : memref<7xf32>
// CHECK:       [[T:%.*]] = vector.broadcast %a : f32 to vector<16xf32>
// CHECK-NEXT:  [[R:%.*]] = vector.reduction <add>, [[T]] fastmath<reassoc> : vector<16xf32> into f32
// CHECK-NEXT:  [[S:%.*]] = loop.load %s[0] : memref<1xf32>
// CHECK-NEXT:  [[C:%.*]] = arith.addf [[S]], [[R]] fastmath<reassoc> : f32
// CHECK-NEXT:  loop.store [[C]], %s[0] : memref<1xf32>
loop.func @same(%x: memref<7xf32>, %s: memref<1xf32>) {
  loop.for %i = 0 to 7 {
    loop.for %j = 0 to 16 vectorized {
      %a = loop.load %x[%i] : memref<7xf32>
      %b = loop.load %s[0] : memref<1xf32>
      %c = arith.addf %b, %a fastmath<reassoc> : f32
      loop.store %c, %s[0] : memref<1xf32>
    }
  }
}

// -----

// A float sum keeps its term order unless it has the flag; integers need none.
// CHECK-LABEL: loop.func @exact
// CHECK:       loop.for %j = 0 to 16
// CHECK:         arith.addf %b, %a : f32
// CHECK-LABEL: loop.func @integers
// CHECK:       vector.reduction <add>, %a : vector<16xi32> into i32
loop.func @exact(%x: memref<16xf32>, %s: memref<1xf32>) {
  loop.for %j = 0 to 16 vectorized {
    %a = loop.load %x[%j] : memref<16xf32>
    %b = loop.load %s[0] : memref<1xf32>
    %c = arith.addf %b, %a : f32
    loop.store %c, %s[0] : memref<1xf32>
  }
}
loop.func @integers(%x: memref<16xi32>, %s: memref<1xi32>) {
  loop.for %j = 0 to 16 vectorized {
    %a = loop.load %x[%j] : memref<16xi32>
    %b = loop.load %s[0] : memref<1xi32>
    %c = arith.addi %b, %a : i32
    loop.store %c, %s[0] : memref<1xi32>
  }
}

// -----

// A guard that ends at a vector boundary holds for all lanes or for none.
// CHECK-LABEL: loop.func @whole
// CHECK:       loop.guard ([%i * 8 - 16] in 96) {
// CHECK-NEXT:    %a = loop.load %x[%i * 8 - 16] lanes [1] : memref<96xf32>, vector<8xf32>
// CHECK-NEXT:    loop.store %a, %y[%i * 8] lanes [1]
loop.func @whole(%x: memref<96xf32>, %y: memref<128xf32>) {
  loop.for %i = 0 to 16 {
    loop.for %j = 0 to 8 vectorized {
      loop.guard ([%i * 8 - 16 + %j] in 96) {
        %a = loop.load %x[%i * 8 - 16 + %j] : memref<96xf32>
        loop.store %a, %y[%i * 8 + %j] : memref<128xf32>
      }
    }
  }
}
