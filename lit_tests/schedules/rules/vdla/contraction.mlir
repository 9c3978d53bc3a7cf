// REQUIRES: long
// RUN: tcopt %s -p fuse-ops,lower-graph-to-te,te-inline,split-operations,lower-te-to-loop,schedule --split-input-file | filecheck %s
// RUN: tcopt %s -p fuse-ops,lower-graph-to-te,te-inline,split-operations,lower-te-to-loop,schedule,apply-schedule,compact-buffers,lower-blocks,inject-virtual-threads,place-sram,lower-loop-to-accelerator --split-input-file | filecheck %s --check-prefix=PROGRAM

// An 8-bit convolution is cut into tiles whose data and weights have several slots; all copies and
// products become intrinsics. The loads write the padding.
// CHECK-LABEL: sched.sequence @blocked_conv_schedule for @blocked_conv attributes {rule = "vdla-contraction"
// CHECK:         %conv_store = sched.cache_write %conv into acc_register
// CHECK:         %conv_init = sched.decompose_reduction %conv at
// CHECK:         sched.reverse_compute_at %conv_store at
// CHECK:         sched.set_scope %pad to acc_input
// CHECK-NEXT:    sched.compute_at %pad at
// CHECK:         %w_acc_weight = sched.cache_read %conv of 1 into acc_weight
// CHECK:         sched.tensorize %conv as "vdla_gemm_1x16x16"
// CHECK-NEXT:    sched.tensorize %conv_init as "vdla_reset_1x16"
// CHECK-NEXT:    sched.tensorize %pad as "vdla_load_inp_1x16"
// CHECK-NEXT:    sched.tensorize %w_acc_weight as "vdla_load_wgt_16x16"
// CHECK-NEXT:    sched.tensorize %conv_store as "vdla_store_acc_1x16"
// PROGRAM-LABEL: accelerator.program @blocked_conv
// PROGRAM:         accelerator.finish
module attributes {tcopt.target = #target.vdla<inp_bytes = 2048, wgt_bytes = 8192, acc_bytes = 8192, uop_bytes = 1024>} {
func.func @main(%x: tensor<1x2x8x8x16xi8>, %w: tensor<2x2x3x3x1x16x16xi8>) -> tensor<1x2x8x8x16xi32> {
  %0 = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1], result_element = i32} : tensor<1x2x8x8x16xi32>
  func.return %0 : tensor<1x2x8x8x16xi32>
}
}

// -----

// For a strided 1x1 convolution only the required rows are loaded.
// CHECK-LABEL: sched.sequence @blocked_conv_schedule for @blocked_conv attributes {rule = "vdla-contraction"
// CHECK:         %x_acc_input = sched.cache_read %conv of 0 into acc_input steps [1, 1, 2, 1, 1]
// PROGRAM-LABEL: accelerator.program @blocked_conv
// PROGRAM:         vdla.load inp 0, %x[0] : {{[0-9]+}}x7 stride 16
module attributes {tcopt.target = #target.vdla<inp_bytes = 2048, wgt_bytes = 8192, acc_bytes = 8192, uop_bytes = 1024>} {
func.func @main(%x: tensor<1x1x8x8x16xi8>, %w: tensor<1x1x1x1x1x16x16xi8>) -> tensor<1x1x4x4x16xi32> {
  %0 = graph.blocked_conv %x, %w {strides = [2, 2], result_element = i32} : tensor<1x1x4x4x16xi32>
  func.return %0 : tensor<1x1x4x4x16xi32>
}
}

// -----

// Float functions run on another processor.
// CHECK-NOT: sched.sequence
module attributes {tcopt.target = #target.vdla<inp_bytes = 2048, wgt_bytes = 8192, acc_bytes = 8192, uop_bytes = 1024>} {
func.func @main(%x: tensor<4x16xf32>, %w: tensor<16x16xf32>) -> tensor<4x16xf32> {
  %0 = graph.matmul %x, %w : tensor<4x16xf32>
  func.return %0 : tensor<4x16xf32>
}
}

// -----

// The ALU computes the epilogue in the registers of the sums: the bias is loaded once for many
// pixels, and bytes are stored.
// CHECK-LABEL: sched.sequence @fused_blocked_conv_add_shift_right_cast_schedule for
// CHECK:         sched.set_scope %conv to acc_register
// CHECK:         sched.reverse_compute_at %addi at
// CHECK:         %b_acc_register = sched.cache_read %addi of 1 into acc_register
// CHECK:         sched.compute_in_place %addi of 0
// CHECK-NEXT:    sched.compute_in_place %shrsi of 0
// CHECK:         sched.tensorize %b_acc_register as "vdla_load_acc_1x16"
// CHECK:         sched.tensorize %addi as "vdla_add_1x16"
// CHECK-NEXT:    sched.tensorize %shrsi as "vdla_shr_1x16_by_8"
// PROGRAM-LABEL: accelerator.program @fused_blocked_conv_add_shift_right_cast
// PROGRAM:         vdla.load acc {{[0-9]+}}, %b[0] : 1x1
// PROGRAM:         vdla.alu add %add
// PROGRAM-NEXT:    vdla.alu shr %shr, 8
// PROGRAM-NEXT:    vdla.store out
module attributes {tcopt.target = #target.vdla<results = "i8", features = "alu,load_i8", inp_bytes = 2048, wgt_bytes = 8192, acc_bytes = 8192, uop_bytes = 1024>} {
func.func @main(%x: tensor<1x1x8x8x16xi8>, %w: tensor<1x1x1x1x1x16x16xi8>, %b: tensor<1x1x1x1x16xi32>) -> tensor<1x1x8x8x16xi8> {
  %n = graph.constant dense<8> : tensor<i32>
  %0 = graph.blocked_conv %x, %w {result_element = i32} : tensor<1x1x8x8x16xi32>
  %1 = graph.add %0, %b : tensor<1x1x8x8x16xi32>
  %2 = graph.shift_right %1, %n : tensor<1x1x8x8x16xi32>
  %3 = graph.cast %2 : tensor<1x1x8x8x16xi8>
  func.return %3 : tensor<1x1x8x8x16xi8>
}
}

// -----

// An ALU with multiplication scales sums by registers that are loaded once, like those for the
// addition and the shift.
// CHECK-LABEL: sched.sequence @fused_blocked_conv_shift_left_multiply_high_add_schedule for
// CHECK:         sched.tensorize %shli as "vdla_shr_1x16_by_-8"
// CHECK-NEXT:    sched.tensorize %trunci as "vdla_mulh_1x16"
// CHECK-NEXT:    sched.tensorize %addi as "vdla_add_1x16"
// CHECK-NEXT:    sched.tensorize %shrsi as "vdla_shr_1x16"
// PROGRAM-LABEL: accelerator.program @fused_blocked_conv_shift_left_multiply_high_add
// PROGRAM:         vdla.load acc {{[0-9]+}}, %m[0] : 1x1
// PROGRAM:         vdla.load acc {{[0-9]+}}, %o[0] : 1x1
// PROGRAM:         vdla.load acc {{[0-9]+}}, %s[0] : 1x1
// PROGRAM:         vdla.alu shr %shr, -8
// PROGRAM-NEXT:    vdla.alu mulh %mulh
// PROGRAM-NEXT:    vdla.alu add %add
// PROGRAM-NEXT:    vdla.alu shr %shr_1
// PROGRAM-NEXT:    vdla.store out
module attributes {tcopt.target = #target.vdla<results = "i8", features = "alu,load_i8,mulh", inp_bytes = 2048, wgt_bytes = 8192, acc_bytes = 8192, uop_bytes = 1024>} {
func.func @main(%x: tensor<1x1x8x8x16xi8>, %w: tensor<1x1x1x1x1x16x16xi8>, %m: tensor<1x1x1x1x16xi32>, %o: tensor<1x1x1x1x16xi32>, %s: tensor<1x1x1x1x16xi32>) -> tensor<1x1x8x8x16xi8> {
  %n = graph.constant dense<8> : tensor<i32>
  %g = graph.group kind = complex_out_fusable {
  %0 = graph.blocked_conv %x, %w {result_element = i32} : tensor<1x1x8x8x16xi32>
  %1 = graph.shift_left %0, %n : tensor<1x1x8x8x16xi32>
  %2 = graph.multiply_high %1, %m : tensor<1x1x8x8x16xi32>
  %3 = graph.add %2, %o : tensor<1x1x8x8x16xi32>
  %4 = graph.shift_right %3, %s {in_range} : tensor<1x1x8x8x16xi32>
  %5 = graph.cast %4 : tensor<1x1x8x8x16xi8>
  graph.yield %5 : tensor<1x1x8x8x16xi8> } : tensor<1x1x8x8x16xi8>
  func.return %g : tensor<1x1x8x8x16xi8>
}
}
