// RUN: tcopt %s -p 'schedule{now=true}' | filecheck %s
// RUN: tcopt %s -p schedule,apply-schedule | filecheck %s

// With the option a function is scheduled immediately, to the same loops as by its sequence.
// CHECK-NOT: sched.sequence
// CHECK:      loop.func @double
// CHECK:      loop.for %io = 0 to 4 {
// CHECK-NEXT:   loop.for %im = 0 to 2 unrolled {
// CHECK-NEXT:     loop.for %ii = 0 to 8 vectorized {
// CHECK-NOT:  sched.sequence
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu",
    vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144>} {
  loop.func @double(%x: memref<64xf32>, %y: memref<64xf32>) {
    loop.for %i = 0 to 64 {
      loop.block "double" (%vi: spatial 64 = %i) {
        %a = loop.load %x[%vi] : memref<64xf32>
        %b = arith.addf %a, %a : f32
        loop.store %b, %y[%vi] : memref<64xf32>
      }
    }
  }
}
