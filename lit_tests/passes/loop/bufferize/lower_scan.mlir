// RUN: tcopt %s -p fuse-ops,lower-graph-to-te,lower-te-to-loop | filecheck %s
// RUN: tcopt %s -p fuse-ops,lower-graph-to-te,lower-te-to-loop,lower-blocks,hoist-workspace,lower-loop-to-kernel,plan-memory --verify-each=exec 2>&1 >/dev/null | filecheck %s --check-prefix=EXEC
// EXEC-NOT: not run
// EXEC: fuse-ops: same values
// EXEC: plan-memory: same values

func.func private @step(%h: tensor<16xf32>, %x: tensor<16xf32>, %y: tensor<3xf32>) -> (tensor<16xf32>, tensor<16xf32>, tensor<3xf32>) {
  %s = graph.add %h, %x : tensor<16xf32>
  %t = graph.exp %y : tensor<3xf32>
  func.return %s, %s, %t : tensor<16xf32>, tensor<16xf32>, tensor<3xf32>
}

// Calls read and write slices in place, whether these start at aligned addresses or not. A state that
// is collected is read where the step before wrote it: reversed, that is the next slice.
// CHECK-LABEL: func.func @main(%h0: memref<16xf32>, %xs: memref<4x16xf32>, %ys: memref<4x3xf32>, %out0: memref<16xf32>, %out1: memref<4x16xf32>, %out2: memref<4x3xf32>)
// CHECK:       %[[ALL:h[_0-9]*]] = memref.alloc() : memref<320xi8>
// CHECK:       %[[READ:[0-9]+]] = memref.view %[[ALL]]{{.*}} to memref<4x64xi8>
// CHECK:       %[[ROWS:[0-9]+]] = memref.view %[[ALL]]{{.*}} to memref<4x16xf32>
// CHECK:       "memref.copy"(%h0,
// CHECK:       scf.for %[[T:t[_0-9]*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NEXT:    %[[LAST:[0-9]+]] = arith.subi %{{.*}}, %[[T]] : index
// CHECK-NEXT:    %[[SLOT:[0-9]+]] = loop.slice %[[READ]][%[[LAST]]] : memref<4x64xi8>
// CHECK:         %[[H:[0-9]+]] = memref.view %[[SLOT]]
// CHECK-NEXT:    %[[ROW:[0-9]+]] = loop.slice %[[ROWS]][%[[LAST]]]
// CHECK-NEXT:    %[[X:[0-9]+]] = loop.slice %xs[%[[LAST]]] : memref<4x16xf32>
// CHECK-NEXT:    %[[Y:[0-9]+]] = loop.slice %ys[%[[LAST]]] : memref<4x3xf32>
// CHECK-NEXT:    %[[SHORT:[0-9]+]] = loop.slice %out2[%[[LAST]]]
// CHECK-NEXT:    loop.call @add(%[[H]], %[[X]], %[[ROW]])
// CHECK-NEXT:    loop.call @exp(%[[Y]], %[[SHORT]])
// CHECK-NEXT:  }
// CHECK:       "memref.copy"(%{{[0-9]+}}, %out0)
// CHECK-NEXT:  "memref.copy"(%[[ROWS]], %out1)
func.func @main(%h0: tensor<16xf32>, %xs: tensor<4x16xf32>, %ys: tensor<4x3xf32>) -> (tensor<16xf32>, tensor<4x16xf32>, tensor<4x3xf32>) {
  %h, %rows, %es = graph.scan @step(%h0, %xs, %ys) {trip = 4, states = 1, scanned = 2, reverse} : (tensor<16xf32>, tensor<4x16xf32>, tensor<4x3xf32>) -> (tensor<16xf32>, tensor<4x16xf32>, tensor<4x3xf32>)
  func.return %h, %rows, %es : tensor<16xf32>, tensor<4x16xf32>, tensor<4x3xf32>
}
