// RUN: not tcopt %s -t ptx 2>&1 | filecheck %s

// Ops that need a host cannot be emitted in a kernel.
// CHECK: unsupported: 'memref.alloc': this op has no form in PTX
func.func private @kernel(%x: memref<4xf32>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %t = memref.alloc() : memref<4xf32>
  func.return
}
