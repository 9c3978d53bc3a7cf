// RUN: tcopt %s -p fuse-ops,lower-graph-to-te,lower-te-to-loop | filecheck %s
// RUN: tcopt %s -p fuse-ops,lower-graph-to-te,lower-te-to-loop,lower-blocks,lower-loop-to-kernel,plan-memory --verify-each=exec 2>&1 >/dev/null | filecheck %s --check-prefix=EXEC
// EXEC-NOT: not run
// EXEC: plan-memory: same values

func.func private @rotate(%a: tensor<2x16xf32>, %b: tensor<1x16xf32>) -> (tensor<2x16xf32>, tensor<1x16xf32>, tensor<1x16xf32>) {
  %low = graph.slice %a {starts = [0, 0]} : tensor<1x16xf32>
  %high = graph.slice %a {starts = [1, 0]} : tensor<1x16xf32>
  %p = graph.matmul %high, %low {transpose_b} : tensor<1x1xf32>
  %n = graph.add %b, %p : tensor<1x16xf32>
  %new = graph.concat %high, %n {axis = 0} : tensor<2x16xf32>
  func.return %new, %high, %low : tensor<2x16xf32>, tensor<1x16xf32>, tensor<1x16xf32>
}

// Parts of a state are views of its old slot; what is joined is written to its new one.
// CHECK-LABEL: func.func @main
// CHECK:       scf.for
// CHECK:         %[[LOW:low.*]] = memref.view
// CHECK:         %[[HIGH:high.*]] = memref.view
// CHECK:         loop.call @matmul(%[[HIGH]], %[[LOW]],
// CHECK:         %[[N:n.*]] = memref.view
// CHECK-NEXT:    loop.call @add(%{{.*}}, %{{.*}}, %[[N]])
// CHECK:         loop.call @copy_16_f32
// CHECK:         "memref.copy"(%[[HIGH]], %{{[0-9]+}})
// CHECK-NEXT:    "memref.copy"(%[[LOW]], %{{[0-9]+}})
// CHECK-NEXT:  }
func.func @main(%a: tensor<2x16xf32>, %b: tensor<1x16xf32>) -> (tensor<2x16xf32>, tensor<1x16xf32>, tensor<3x1x16xf32>) {
  %c, %d, %e = graph.scan @rotate(%a, %b) {trip = 3, states = 2, scanned = 0} : (tensor<2x16xf32>, tensor<1x16xf32>) -> (tensor<2x16xf32>, tensor<1x16xf32>, tensor<3x1x16xf32>)
  func.return %c, %d, %e : tensor<2x16xf32>, tensor<1x16xf32>, tensor<3x1x16xf32>
}
