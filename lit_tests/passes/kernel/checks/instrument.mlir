// RUN: tcopt %s -p instrument | filecheck %s
// RUN: tcopt %s -p instrument -t llvm | filecheck %s --check-prefix LLVM

func.func private @serial(%a: memref<16xf32>, %b: memref<16xf32>) {
  func.return
}

func.func private @threads(%a: memref<16xf32>, %b: memref<16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  "scf.parallel"(%c0, %c16, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %0 = memref.load %a[%i] : memref<16xf32>
    memref.store %0, %b[%i] : memref<16xf32>
    scf.reduce
  }) : (index, index, index) -> ()
  func.return
}

// Each call is between two reads of the clock; @main names what each pair of times measures.
// CHECK-LABEL: func.func @main(%x: memref<16xf32>, %y: memref<16xf32>, %times: memref<4xi64>)
// CHECK-SAME:  tcopt.profile = [{kernel = "serial", nodes = ["Conv_0", "Relu_1"], ops = ["conv", "relu"], results = ["16xf32"], work = 64 : i64, bytes = 128 : i64, parallel = false, turns = 1 : i64}
// CHECK-SAME:  {kernel = "threads", nodes = ["Add_2"], ops = [], results = [], work = 0 : i64, bytes = 128 : i64, parallel = true, turns = 1 : i64}]
// CHECK-NEXT:    [[START:%.*]] = profile.clock : i64
// CHECK-NEXT:    [[C0:%.*]] = arith.constant 0 : index
// CHECK-NEXT:    memref.store [[START]], %times[[[C0]]] : memref<4xi64>
// CHECK-NEXT:    func.call @serial(%x, %y)
// CHECK-NEXT:    [[END:%.*]] = profile.clock : i64
// CHECK-NEXT:    [[C1:%.*]] = arith.constant 1 : index
// CHECK-NEXT:    memref.store [[END]], %times[[[C1]]] : memref<4xi64>
// CHECK-NEXT:    profile.clock
// CHECK-NEXT:    arith.constant 2
// CHECK:         func.call @threads(%x, %y)
// LLVM-LABEL: define void @tcopt.main(
// LLVM:         call i32 @clock_gettime(i32 1, ptr %{{.*}})
// LLVM:         store i64 %{{.*}}, ptr %arg2, align 8
// LLVM-NEXT:    call void @tcopt.serial
func.func @main(%x: memref<16xf32>, %y: memref<16xf32>) {
  func.call @serial(%x, %y) {tcopt.origin = {nodes = ["Conv_0", "Relu_1"], ops = ["conv", "relu"], results = ["16xf32"], work = 64 : i64}} : (memref<16xf32>, memref<16xf32>) -> ()
  func.call @threads(%x, %y) : (memref<16xf32>, memref<16xf32>) -> () loc("Add_2")
  func.return
}
