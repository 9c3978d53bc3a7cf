// RUN: tcopt %s -p 'set-target{cpu=haswell},convert-layout' | filecheck %s --check-prefix=HASWELL
// RUN: tcopt %s -p 'set-target{cpu=cortex-a72},convert-layout' | filecheck %s --check-prefix=ARM
// RUN: tcopt %s -p convert-layout | filecheck %s --check-prefix=NONE
// RUN: tcopt %s -p 'convert-layout{block=-1}' --verify-diagnostics | filecheck %s --check-prefix=BAD

// The block is the target's vector width; without a target nothing changes.
// HASWELL: dst = "NCHW8c"
// ARM: dst = "NCHW4c"
// NONE-NOT: graph.layout_transform
// BAD: convert-layout: block = -1 is negative
func.func @conv(%x: tensor<1x8x6x6xf32>, %w: tensor<8x8x3x3xf32>) -> tensor<1x8x4x4xf32> {
  %c = graph.conv %x, %w : tensor<1x8x4x4xf32>
  return %c : tensor<1x8x4x4xf32>
}
