// RUN: tcopt %s -p fuse-ops,lower-graph-to-te,lower-te-to-loop | filecheck %s
// RUN: tcopt %s -p fuse-ops,lower-graph-to-te,lower-te-to-loop,lower-blocks,lower-loop-to-kernel,plan-memory --verify-each=exec 2>&1 >/dev/null | filecheck %s --check-prefix=EXEC
// EXEC-NOT: not run
// EXEC: plan-memory: same values

func.func private @swap(%a: tensor<16xf32>, %b: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %s = graph.neg %b : tensor<16xf32>
  func.return %s, %a : tensor<16xf32>, tensor<16xf32>
}

// Steps alternate between two slots of each state, so no state is overwritten while it is read, and
// two scans of one function have slots of their own.
// CHECK-LABEL: func.func @main
// CHECK:       %[[A:c[_0-9]*]] = memref.alloc() : memref<2x64xi8>
// CHECK:       %[[B:d[_0-9]*]] = memref.alloc() : memref<2x64xi8>
// CHECK:       scf.for %[[T:t[_0-9]*]] =
// CHECK-NEXT:    %[[OLD:[0-9]+]] = arith.remui %[[T]], %{{.*}} : index
// CHECK-NEXT:    %[[NEW:[0-9]+]] = arith.subi %{{.*}}, %[[OLD]] : index
// CHECK-NEXT:    %[[A0:[0-9]+]] = loop.slice %[[A]][%[[OLD]]]
// CHECK:         %[[A1:[0-9]+]] = loop.slice %[[A]][%[[NEW]]]
// CHECK:         %[[B0:[0-9]+]] = loop.slice %[[B]][%[[OLD]]]
// CHECK:         %[[B1:[0-9]+]] = loop.slice %[[B]][%[[NEW]]]
// CHECK:         loop.call @neg
// CHECK-NEXT:    "memref.copy"
// CHECK-NEXT:  }
// CHECK:       %[[E:e[_0-9]*]] = memref.alloc() : memref<2x64xi8>
// CHECK:       loop.slice %[[E]]
func.func @main(%a: tensor<16xf32>, %b: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) {
  %c, %d = graph.scan @swap(%a, %b) {trip = 3, states = 2, scanned = 0} : (tensor<16xf32>, tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>)
  %e, %f = graph.scan @swap(%c, %b) {trip = 3, states = 2, scanned = 0} : (tensor<16xf32>, tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>)
  func.return %c, %d, %e, %f : tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>
}
