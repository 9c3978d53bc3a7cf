// RUN: tcopt %s -p fuse-ops,lower-graph-to-te,lower-te-to-loop | filecheck %s
// RUN: tcopt %s -p fuse-ops,lower-graph-to-te,lower-te-to-loop,lower-blocks,lower-loop-to-kernel,plan-memory --verify-each=exec 2>&1 >/dev/null | filecheck %s --check-prefix=EXEC
// EXEC-NOT: not run
// EXEC: plan-memory: same values

func.func private @swap(%a: tensor<16xf32>, %b: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %s = graph.neg %b : tensor<16xf32>
  func.return %s, %a : tensor<16xf32>, tensor<16xf32>
}

// A state that becomes the successor of another one is saved before that is overwritten, and
// two scans of one function do not meet.
// CHECK-LABEL: func.func @main
// CHECK:       scf.for
// CHECK-NEXT:    loop.call @neg(%out1, %[[S:[a-z0-9_]+]])
// CHECK-NEXT:    "memref.copy"(%out0, %[[OLD:[0-9]+]])
// CHECK-NEXT:    "memref.copy"(%[[S]], %out0)
// CHECK-NEXT:    "memref.copy"(%[[OLD]], %out1)
// CHECK:       scf.for
// CHECK-NEXT:    loop.call @neg(%out3, %
func.func @main(%a: tensor<16xf32>, %b: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) {
  %c, %d = graph.scan @swap(%a, %b) {trip = 3, states = 2, scanned = 0} : (tensor<16xf32>, tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>)
  %e, %f = graph.scan @swap(%c, %b) {trip = 3, states = 2, scanned = 0} : (tensor<16xf32>, tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>)
  func.return %c, %d, %e, %f : tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>
}
