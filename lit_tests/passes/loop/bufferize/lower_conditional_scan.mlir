// RUN: tcopt %s | filecheck %s --check-prefix=GRAPH
// RUN: tcopt %s -p lower-graph-to-te,lower-te-to-loop | filecheck %s
// RUN: tcopt %s -p lower-graph-to-te,lower-te-to-loop --verify-each=exec | filecheck %s

// A scan with a condition is a loop that tests its first state before each step. Its last result is
// the number of steps.

func.func private @step(%go: tensor<i1>, %i: tensor<i64>, %m: tensor<i64>) -> (tensor<i1>, tensor<i64>, tensor<i64>) {
  %one = graph.constant dense<1> : tensor<i64>
  %j = graph.add %i, %one : tensor<i64>
  %g = graph.compare %j, %m {predicate = "lt"} : tensor<i1>
  func.return %g, %j, %i : tensor<i1>, tensor<i64>, tensor<i64>
}

// GRAPH: graph.scan @step(%go, %i, %m) {trip = 16, states = 2, scanned = 0} conditional : (tensor<i1>, tensor<i64>, tensor<i64>) -> (tensor<i1>, tensor<i64>, tensor<16xi64>, tensor<i64>)

// CHECK-LABEL: func.func @main
// CHECK: [[GO:%.*]] = memref.alloc() : memref<2x64xi8>
// CHECK: [[COUNT:%.*]] = scf.while (%t = %{{.*}}) : (index) -> index {
// CHECK: [[FLAG:%.*]] = memref.load %{{.*}}[] : memref<i1>
// CHECK: [[BELOW:%.*]] = arith.cmpi ult, %t, %{{.*}} : index
// CHECK: [[GOES:%.*]] = arith.andi [[FLAG]], [[BELOW]] : i1
// CHECK: scf.condition([[GOES]]) %t : index
// CHECK: loop.call @compare
// CHECK: scf.yield
// CHECK: arith.remui [[COUNT]]
// CHECK: [[NUMBER:%.*]] = arith.index_cast [[COUNT]] : index to i64
// CHECK: memref.store [[NUMBER]], %{{.*}}[] : memref<i64>
func.func @main(%go: tensor<i1>, %i: tensor<i64>, %m: tensor<i64>) -> (tensor<i64>, tensor<i64>) {
  %g, %j, %is, %count = graph.scan @step(%go, %i, %m) {trip = 16, states = 2, scanned = 0} conditional : (tensor<i1>, tensor<i64>, tensor<i64>) -> (tensor<i1>, tensor<i64>, tensor<16xi64>, tensor<i64>)
  func.return %j, %count : tensor<i64>, tensor<i64>
}
