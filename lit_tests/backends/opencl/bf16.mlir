// RUN: tcopt %s -t opencl | filecheck %s

// A bf16 is a ushort in memory and a float in the kernel, rounded where it is stored or made.
// CHECK:      float bf16_value(ushort bits) {
// CHECK-NEXT:   return as_float(convert_uint(bits) << 16);
// CHECK:      ushort bf16_bits(float x) {
// CHECK-NEXT:   uint bits = as_uint(x);
// CHECK-NEXT:   uint rounded = bits + 0x7fffu + (bits >> 16 & 1u);
// CHECK-NEXT:   uint quiet = bits | 0x400000u;
// CHECK-NEXT:   return convert_ushort((isnan(x) ? quiet : rounded) >> 16);
// CHECK:      __global const ushort *restrict x,
// CHECK-NEXT: __global ushort *restrict y,
func.func private @sums(%x: memref<8xbf16>, %y: memref<8xbf16>, %z: memref<8xi16>) attributes {gpu.kernel, gpu.known_block_size = array<i32: 1, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // CHECK: const float a = bf16_value(x[1]);
  // CHECK: y[0] = bf16_bits(a + a);
  %a = memref.load %x[%c1] : memref<8xbf16>
  %b = arith.addf %a, %a : bf16
  memref.store %b, %y[%c0] : memref<8xbf16>
  // CHECK: const float4 v = bf16_value4(vload4(0, x));
  // CHECK: vstore4(bf16_bits4(v * v), 0, y);
  %v = vector.load %x[%c0] : memref<8xbf16>, vector<4xbf16>
  %w = arith.mulf %v, %v : vector<4xbf16>
  vector.store %w, %y[%c0] : memref<8xbf16>, vector<4xbf16>
  // A cast rounds; bits are those in memory.
  // CHECK: z[0] = as_short(bf16_bits(bf16_value(bf16_bits(a * 1.5f))));
  %f = arith.constant 1.5 : f32
  %e = arith.extf %a : bf16 to f32
  %g = arith.mulf %e, %f : f32
  %r = arith.truncf %g : f32 to bf16
  %i = arith.bitcast %r : bf16 to i16
  memref.store %i, %z[%c0] : memref<8xi16>
  func.return
}
