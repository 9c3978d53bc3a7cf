// Two products of 4x16 by 16x16 bytes, with inputs in two slots: the second inputs and weights are
// loaded while the first product is computed and stored.
accelerator.program @products(%x: memref<8x16xi8>, %w: memref<2x16x16xi8>, %y: memref<8x16xi32>) {
  %first = vdla.kernel gemm at 0 [4] dst [1] src [1] wgt [0] {
    uop 0, 0, 0
  }
  %second = vdla.kernel gemm at 1 [4] dst [1] src [1] wgt [0] {
    uop 4, 4, 1
  }
  vdla.load_uops %first, %second
  vdla.gemm reset %first
  vdla.gemm reset %second
  vdla.load inp 0, %x[0] : 1x4
  vdla.load wgt 0, %w[0] : 1x1 push(compute)
  vdla.gemm %first pop(load) push(store)
  vdla.load inp 4, %x[4] : 1x4
  vdla.load wgt 1, %w[1] : 1x1 push(compute)
  vdla.gemm %second pop(load) push(store)
  vdla.store acc 0, %y[0] : 1x4 pop(compute)
  vdla.store acc 4, %y[4] : 1x4 pop(compute) push(compute)
  accelerator.finish pop(store)
}
