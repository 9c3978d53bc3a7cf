// RUN: tcopt %s | filecheck %s
// RUN: tcopt %s | tcopt | filecheck %s
// RUN: tcopt %s -p 'fix-sizes{found=5}' | filecheck %s --check-prefix=FIXED
// RUN: tcopt %s -p lower-graph-to-te,lower-te-to-loop | filecheck %s --check-prefix=LOOP
// RUN: tcopt %s -p lower-graph-to-te,lower-te-to-loop,apply-schedule,lower-blocks,lower-loop-to-kernel | filecheck %s --check-prefix=KERNEL

// A computed integer becomes a size of later types. At the loop level it is read from a buffer, and
// at the kernel level it is loaded and clamped to its range.
// CHECK-LABEL: func.func @main
// CHECK: %[[COUNT:.*]], %{{.*}} = graph.nonzero
// CHECK: size.define %{{.*}} as <found[0:12]> : tensor<1xi64>
// CHECK-NEXT: graph.slice %{{.*}} : tensor<12xi64, #size.dims<found[0:12]>>

// FIXED-LABEL: func.func @main
// FIXED-NOT: size.define
// FIXED: graph.slice %{{.*}} : tensor<5xi64>

// LOOP-LABEL: func.func @main
// LOOP: loop.call @nonzero
// LOOP: %found = size.define %{{.*}} as <found[0:12]> : memref<1xi64>
// LOOP: loop.call @{{.*}} sizes <found[0:12]>

// KERNEL-LABEL: func.func @main
// KERNEL: func.call @nonzero
// KERNEL: %[[LOADED:.*]] = memref.load %{{.*}} : memref<1xi64>
// KERNEL-NEXT: %[[NUMBER:.*]] = arith.index_cast %[[LOADED]] : i64 to index
// KERNEL-NEXT: %[[LEAST:.*]] = arith.maxsi %[[NUMBER]], %{{.*}} : index
// KERNEL-NEXT: %found = arith.minsi %[[LEAST]], %{{.*}} : index
// KERNEL: func.call @neg(%part, %out, %found)
func.func @main(%flags: tensor<12xi1>) -> tensor<12xi64, #size.dims<found[0:12]>> {
  %places, %count = graph.nonzero %flags : tensor<12xi64>, tensor<1xi64>
  %found = size.define %count as <found[0:12]> : tensor<1xi64>
  %part = graph.slice %places {starts = [0]} : tensor<12xi64, #size.dims<found[0:12]>>
  %y = graph.neg %part : tensor<12xi64, #size.dims<found[0:12]>>
  func.return %y : tensor<12xi64, #size.dims<found[0:12]>>
}
