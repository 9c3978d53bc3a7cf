// RUN: tcopt %s -p lower-te-to-loop | filecheck %s

// A permuted product is computed in the order of its sums: only the store is strided.
// CHECK-LABEL: loop.func @heads
// CHECK:       loop.block "transpose" (%[[I:.*]]: spatial 5 = %{{.*}}, %[[J:.*]]: spatial 48 = %{{.*}}) {
// CHECK-NEXT:    %[[S:.*]] = loop.load %{{.*}}[%[[I]], %[[J]]]
// CHECK-NEXT:    %[[B:.*]] = loop.load %b[%[[J]]]
// CHECK-NEXT:    %[[R:.*]] = arith.addf %[[S]], %[[B]]
// CHECK-NEXT:    loop.store %[[R]], %{{.*}}[%[[J]] floordiv 16, %[[I]], %[[J]] mod 16]
te.func @heads(%x: tensor<5x4xf32>, %w: tensor<4x48xf32>, %b: tensor<48xf32>) -> tensor<3x5x16xf32> {
  %sums = te.compute "sums" [%i = 5, %j = 48] reduce [%k = 4] sum : tensor<5x48xf32> {
    %0 = te.read %x[%i, %k] : tensor<5x4xf32>
    %1 = te.read %w[%k, %j] : tensor<4x48xf32>
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }
  %heads = te.compute "transpose" [%h = 3, %s = 5, %d = 16] : tensor<3x5x16xf32> {
    %0 = te.read %sums[%s, %h * 16 + %d] : tensor<5x48xf32>
    %1 = te.read %b[%h * 16 + %d] : tensor<48xf32>
    %2 = arith.addf %0, %1 : f32
    te.yield %2 : f32
  }
  te.return %heads : tensor<3x5x16xf32>
}
