// A loop bound to a thread axis, as in a kernel of a GPU.
loop.func @copy(%x: memref<64xf32>, %y: memref<64xf32>) {
  loop.for %i = 0 to 64 {
    loop.block "copy" (%vi: spatial 64 = %i) {
      %0 = loop.load %x[%vi] : memref<64xf32>
      loop.store %0, %y[%vi] : memref<64xf32>
    }
  }
}
sched.sequence @copy_schedule for @copy {
  %copy = sched.get_block "copy"
  %i = sched.get_loops %copy
  sched.bind %i to threadIdx.x
}
