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

// A step's calls write slices that start at aligned addresses in place, others are copied;
// the state is handed on at the end, and all buffers are made in front of the loop.
// CHECK-LABEL: func.func @main(%h0: memref<16xf32>, %xs: memref<4x16xf32>, %ys: memref<4x3xf32>, %out0: memref<16xf32>, %out1: memref<4x16xf32>, %out2: memref<4x3xf32>)
// CHECK-NEXT:  "memref.copy"(%h0, %out0)
// CHECK:       %[[TEMP:[0-9]+]] = memref.alloc() : memref<3xf32>
// CHECK:       scf.for %[[T:t[_0-9]*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK:         %[[LAST:[0-9]+]] = arith.subi %{{.*}}, %[[T]] : index
// CHECK-NEXT:    %[[X:[0-9]+]] = loop.slice %xs[%[[LAST]]] : memref<4x16xf32>
// CHECK-NEXT:    %[[Y:[0-9]+]] = loop.slice %ys[%[[LAST]]] : memref<4x3xf32>
// CHECK-NEXT:    "memref.copy"(%[[Y]], %[[TEMP]])
// CHECK-NEXT:    %[[ROW:[0-9]+]] = loop.slice %out1[%[[LAST]]]
// CHECK-NEXT:    %[[SHORT:[0-9]+]] = loop.slice %out2[%[[LAST]]]
// CHECK-NEXT:    loop.call @add(%out0, %[[X]], %[[ROW]])
// CHECK-NEXT:    loop.call @exp(%[[TEMP]], %[[E:[a-z0-9_]+]])
// CHECK-NEXT:    "memref.copy"(%[[E]], %[[SHORT]])
// CHECK-NEXT:    "memref.copy"(%[[ROW]], %out0)
// CHECK-NEXT:  }
func.func @main(%h0: tensor<16xf32>, %xs: tensor<4x16xf32>, %ys: tensor<4x3xf32>) -> (tensor<16xf32>, tensor<4x16xf32>, tensor<4x3xf32>) {
  %h, %rows, %es = graph.scan @step(%h0, %xs, %ys) {trip = 4, states = 1, scanned = 2, reverse} : (tensor<16xf32>, tensor<4x16xf32>, tensor<4x3xf32>) -> (tensor<16xf32>, tensor<4x16xf32>, tensor<4x3xf32>)
  func.return %h, %rows, %es : tensor<16xf32>, tensor<4x16xf32>, tensor<4x3xf32>
}
