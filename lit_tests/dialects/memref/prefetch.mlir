// RUN: tcopt %s --split-input-file --verify-diagnostics | filecheck %s
// RUN: tcopt %s --split-input-file --verify-diagnostics --print-op-generic | tcopt --split-input-file --verify-diagnostics | filecheck %s

// The op has MLIR's syntax.
// CHECK: memref.prefetch %x[%i, %i], read, locality<3>, data : memref<4x4xf32>
func.func @f(%x: memref<4x4xf32>, %i: index) {
  memref.prefetch %x[%i, %i], read, locality<3>, data : memref<4x4xf32>
  func.return
}
