// RUN: tcopt %s -p lower-te-to-loop --split-input-file | filecheck %s

// A reduction becomes a serial nest around a block with an init.
// CHECK-LABEL: loop.func @sum(%x: memref<8x4xf32>, %y: memref<8xf32>) {
// CHECK-NEXT:    loop.for %i = 0 to 8 {
// CHECK-NEXT:      loop.for %k = 0 to 4 {
// CHECK-NEXT:        loop.block "sum" (%vi: spatial 8 = %i, %vk: reduce 4 = %k) {
// CHECK-NEXT:          loop.init {
// CHECK-NEXT:            %0 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:            loop.store %0, %y[%vi] : memref<8xf32>
// CHECK-NEXT:          }
// CHECK-NEXT:          %{{.*}} = loop.load %x[%vi, %vk] : memref<8x4xf32>
// CHECK-NEXT:          %{{.*}} = loop.load %y[%vi] : memref<8xf32>
// CHECK-NEXT:          %{{.*}} = arith.addf
// CHECK-NEXT:          loop.store %{{.*}}, %y[%vi] : memref<8xf32>
te.func @sum(%x: tensor<8x4xf32>) -> tensor<8xf32> {
  %y = te.compute "sum" [%i = 8] reduce [%k = 4] sum : tensor<8xf32> {
    %0 = te.read %x[%i, %k] : tensor<8x4xf32>
    te.yield %0 : f32
  }
  te.return %y : tensor<8xf32>
}

// -----

// An intermediate stage gets its own buffer; a guard stays with its load.
// CHECK-LABEL: loop.func @blur(%x: memref<8xf32>, %b: memref<8xf32>) {
// CHECK-NEXT:    %p = loop.alloc global : memref<10xf32>
// CHECK:         loop.block "p"
// CHECK-NEXT:      %{{.*}} = loop.load %x[%vi - 1] else 0.000000e+00 : memref<8xf32>
// CHECK:         loop.block "b"
// CHECK:           loop.index [%vi * 2]
te.func @blur(%x: tensor<8xf32>) -> tensor<8xf32> {
  %p = te.compute "p" [%i = 10] : tensor<10xf32> {
    %0 = te.read %x[%i - 1] else 0.0 : tensor<8xf32>
    te.yield %0 : f32
  }
  %b = te.compute "b" [%i = 8] : tensor<8xf32> {
    %0 = te.read %p[%i + 1] : tensor<10xf32>
    %1 = te.index [%i * 2]
    %2 = arith.index_cast %1 : index to i32
    %3 = arith.sitofp %2 : i32 to f32
    %4 = arith.mulf %0, %3 : f32
    te.yield %4 : f32
  }
  te.return %b : tensor<8xf32>
}

// -----

// The identity of a reduction depends on its combiner and type.
// CHECK-LABEL: loop.func @identities
// CHECK:         loop.init
// CHECK-NEXT:      arith.constant 0xff800000 : f32
// CHECK:         arith.maximumf
// CHECK:         loop.init
// CHECK-NEXT:      arith.constant 127 : i8
// CHECK:         arith.minsi
// CHECK:         loop.init
// CHECK-NEXT:      arith.constant -1 : i8
// CHECK:         arith.minui
// CHECK:         loop.init
// CHECK-NEXT:      arith.constant true
// CHECK:         arith.andi
te.func @identities(%x: tensor<4xf32>, %n: tensor<4xi8>, %c: tensor<4xi1>)
    -> (tensor<f32>, tensor<i8>, tensor<i8>, tensor<i1>) {
  %0 = te.compute "max" [] reduce [%k = 4] max : tensor<f32> {
    %e = te.read %x[%k] : tensor<4xf32>
    te.yield %e : f32
  }
  %1 = te.compute "min" [] reduce [%k = 4] min : tensor<i8> {
    %e = te.read %n[%k] : tensor<4xi8>
    te.yield %e : i8
  }
  %2 = te.compute "umin" [] reduce [%k = 4] umin : tensor<i8> {
    %e = te.read %n[%k] : tensor<4xi8>
    te.yield %e : i8
  }
  %3 = te.compute "all" [] reduce [%k = 4] min : tensor<i1> {
    %e = te.read %c[%k] : tensor<4xi1>
    te.yield %e : i1
  }
  te.return %0, %1, %2, %3 : tensor<f32>, tensor<i8>, tensor<i8>, tensor<i1>
}

// -----

// The host function takes buffers for its results; views copy nothing, weights are named.
// CHECK-LABEL: func.func @main(%x: memref<2x2xf32>, %out: memref<1x4xf32>) {
// CHECK-NEXT:    %w = loop.weight @scale : memref<4xf32>
// CHECK-NEXT:    %0 = memref.reinterpret_cast %x to offset: [0], sizes: [4], strides: [1] : memref<2x2xf32> to memref<4xf32>
// CHECK-NEXT:    %1 = memref.alloc() : memref<4xf32>
// CHECK-NEXT:    loop.call @mul(%0, %w, %1) : memref<4xf32>, memref<4xf32>, memref<4xf32>
// CHECK-NEXT:    %2 = memref.reinterpret_cast %out to offset: [0], sizes: [4], strides: [1] : memref<1x4xf32> to memref<4xf32>
// CHECK-NEXT:    loop.call @mul(%1, %w, %2) : memref<4xf32>, memref<4xf32>, memref<4xf32>
// CHECK-NEXT:    func.return
te.func @mul(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %y = te.compute "mul" [%i = 4] : tensor<4xf32> {
    %0 = te.read %x[%i] : tensor<4xf32>
    %1 = te.read %w[%i] : tensor<4xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %y : tensor<4xf32>
}
func.func @main(%x: tensor<2x2xf32>) -> tensor<1x4xf32> {
  %w = graph.constant @scale : tensor<4xf32>
  %0 = graph.reshape %x : tensor<4xf32>
  %1 = te.call @mul(%0, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = te.call @mul(%1, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.reshape %2 : tensor<1x4xf32>
  return %3 : tensor<1x4xf32>
}

// -----

// An operator implemented as loops writes directly to the result's final place, also through views.
// CHECK-LABEL: func.func @main(%x: memref<8x4xf32>, %out: memref<32xf32>) {
// CHECK-NEXT:    %0 = memref.reinterpret_cast %out to offset: [0], sizes: [8, 4], strides: [4, 1]
// CHECK-NEXT:    loop.call @cumsum(%x, %0) : memref<8x4xf32>, memref<8x4xf32>
// CHECK-NEXT:    func.return
func.func @main(%x: tensor<8x4xf32>) -> tensor<32xf32> {
  %0 = graph.cumsum %x {axis = 0} : tensor<8x4xf32>
  %1 = graph.reshape %0 : tensor<32xf32>
  return %1 : tensor<32xf32>
}

// -----

// A stage inside a border is written to the interior of the result.
// CHECK-LABEL: loop.func @padded(%x: memref<4xf32>, %p: memref<6xf32>) {
// CHECK-NEXT:    loop.for %i = 0 to 4 {
// CHECK-NEXT:      loop.block "e" (%vi: spatial 4 = %i) {
// CHECK:             loop.store %{{.*}}, %p[%vi + 1] : memref<6xf32>
// CHECK-NOT:     loop.block
// CHECK:         loop.border %p outside [1 to 5] = 0.000000e+00 : memref<6xf32>
te.func @padded(%x: tensor<4xf32>) -> tensor<6xf32> {
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

// -----

// Parts of a concatenation are written in place, into the result's buffer if it is returned, also
// through nested concatenations. Parts that are used twice, or are not results of calls, are
// copied.
// CHECK-LABEL: func.func @main(%x: memref<16xf32>, %out: memref<80xf32>) {
// CHECK-NEXT:    %[[B:.*]] = builtin.unrealized_conversion_cast %out : memref<80xf32> to memref<320xi8>
// CHECK-NEXT:    %[[C:.*]] = arith.constant 192 : index
// CHECK-NEXT:    %a = memref.view %[[B]][%[[C]]][] : memref<320xi8> to memref<16xf32>
// CHECK:         loop.call @exp(%x, %a)
// CHECK:         loop.call @copy_16_f32(%a, %{{.*}})
// CHECK:         loop.call @copy_16_f32(%x, %{{.*}})
// CHECK:         loop.call @exp(%a, %b)
// CHECK-NOT:     loop.call @copy_16_f32(%a
// CHECK:         loop.call @copy_16_f32(%x, %{{.*}})
// CHECK-NOT:     loop.call
// CHECK:         func.return
te.func @exp(%x: tensor<16xf32>) -> tensor<16xf32> {
  %e = te.compute "e" [%i = 16] : tensor<16xf32> {
    %0 = te.read %x[%i] : tensor<16xf32>
    %1 = math.exp %0 : f32
    te.yield %1 : f32
  }
  te.return %e : tensor<16xf32>
}
func.func @main(%x: tensor<16xf32>) -> tensor<80xf32> {
  %a = te.call @exp(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %0 = graph.concat %a, %x {axis = 0} : tensor<32xf32>
  %b = te.call @exp(%a) : (tensor<16xf32>) -> tensor<16xf32>
  %1 = graph.concat %0, %b, %a, %x {axis = 0} : tensor<80xf32>
  return %1 : tensor<80xf32>
}

// -----

// A contiguous, aligned slice is a view, also of a view. As a result, or as a part of a
// concatenation, it is copied.
// CHECK-LABEL: func.func @main(%x: memref<4x16xf32>, %out0: memref<32xf32>, %out1: memref<16xf32>) {
// CHECK:         %[[X:.*]] = builtin.unrealized_conversion_cast %{{.*}} : memref<64xf32> to memref<256xi8>
// CHECK:         %[[C:.*]] = arith.constant 128 : index
// CHECK-NEXT:    %a = memref.view %[[X]][%[[C]]][] : memref<256xi8> to memref<2x16xf32>
// CHECK:         %[[A:.*]] = builtin.unrealized_conversion_cast %{{.*}} : memref<32xf32> to memref<128xi8>
// CHECK:         %[[D:.*]] = arith.constant 64 : index
// CHECK-NEXT:    %b = memref.view %[[A]][%[[D]]][] : memref<128xi8> to memref<16xf32>
// CHECK:         loop.call @exp(%b, %e)
// CHECK:         loop.call @copy_16_f32(%b, %{{.*}})
// CHECK:         loop.call @copy_16_f32(%b, %out1)
te.func @exp(%x: tensor<16xf32>) -> tensor<16xf32> {
  %e = te.compute "e" [%i = 16] : tensor<16xf32> {
    %0 = te.read %x[%i] : tensor<16xf32>
    %1 = math.exp %0 : f32
    te.yield %1 : f32
  }
  te.return %e : tensor<16xf32>
}
func.func @main(%x: tensor<4x16xf32>) -> (tensor<32xf32>, tensor<16xf32>) {
  %a = graph.slice %x {starts = [2, 0]} : tensor<2x16xf32>
  %f = graph.reshape %a : tensor<32xf32>
  %b = graph.slice %f {starts = [16]} : tensor<16xf32>
  %e = te.call @exp(%b) : (tensor<16xf32>) -> tensor<16xf32>
  %c = graph.concat %b, %e {axis = 0} : tensor<32xf32>
  return %c, %b : tensor<32xf32>, tensor<16xf32>
}

// -----

// A result that is an argument, or is returned twice, is copied.
// CHECK-LABEL: loop.func @copy_4_f32(%x: memref<4xf32>, %out: memref<4xf32>) {
// CHECK-NEXT:    loop.for %i0 = 0 to 4 {
// CHECK-NEXT:      loop.block "copy" (%vi0: spatial 4 = %i0) {
// CHECK:       func.func @main(%x: memref<4xf32>, %out0: memref<4xf32>, %out1: memref<4xf32>) {
// CHECK-NEXT:    loop.call @copy_4_f32(%x, %out0) : memref<4xf32>, memref<4xf32>
// CHECK-NEXT:    loop.call @copy_4_f32(%x, %out1) : memref<4xf32>, memref<4xf32>
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  return %x, %x : tensor<4xf32>, tensor<4xf32>
}

// -----

// An axis that is divided into quotient and remainder to index another stage becomes two loops,
// which only the store recombines.
// CHECK-LABEL: loop.func @weave
// CHECK:       loop.block "p"
// CHECK:       loop.for %i = 0 to 4 {
// CHECK-NEXT:    loop.for %ii = 0 to 2 {
// CHECK-NEXT:      loop.block "y" (%vi: spatial 4 = %i, %vii: spatial 2 = %ii) {
// CHECK-NEXT:        %[[P:.*]] = loop.load %p[%vii, %vi] : memref<2x4xf32>
// CHECK-NEXT:        %[[B:.*]] = loop.load %b[%vi * 2 + %vii] : memref<8xf32>
// CHECK-NEXT:        %[[S:.*]] = arith.addf %[[P]], %[[B]] fastmath<contract> : f32
// CHECK-NEXT:        loop.store %[[S]], %y[%vi * 2 + %vii] : memref<8xf32>
te.func @weave(%x: tensor<4xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %p = te.compute "p" [%j = 2, %i = 4] : tensor<2x4xf32> {
    %0 = te.read %x[%i] : tensor<4xf32>
    te.yield %0 : f32
  }
  %y = te.compute "y" [%i = 8] : tensor<8xf32> {
    %0 = te.read %p[%i mod 2, %i floordiv 2] : tensor<2x4xf32>
    %1 = te.read %b[%i] : tensor<8xf32>
    %2 = arith.addf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %y : tensor<8xf32>
}
