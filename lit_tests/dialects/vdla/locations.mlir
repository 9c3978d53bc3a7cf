// RUN: tcopt %s --print-debuginfo | filecheck %s
// RUN: tcopt %s --print-debuginfo | tcopt --print-debuginfo | filecheck %s

// Instructions and kernels keep the names of their source nodes.
// CHECK:   %k = vdla.kernel gemm at 0 [2] dst [1] src [1] wgt [0] {
// CHECK:   } loc("/layer1.0/conv1")
// CHECK:   vdla.load inp 0, %x[0] : 1x4 push(compute) loc("/layer1.0/conv1")
// CHECK:   vdla.gemm reset %k pop(load) loc("/layer1.0/conv1")
// CHECK:   accelerator.finish loc("/layer1.0/relu")
accelerator.program @f(%x: memref<4x16xi8>) {
  %k = vdla.kernel gemm at 0 [2] dst [1] src [1] wgt [0] {
    uop 0, 0, 0
  } loc("/layer1.0/conv1")
  vdla.load inp 0, %x[0] : 1x4 push(compute) loc("/layer1.0/conv1")
  vdla.gemm reset %k pop(load) loc("/layer1.0/conv1")
  accelerator.finish loc("/layer1.0/relu")
}
