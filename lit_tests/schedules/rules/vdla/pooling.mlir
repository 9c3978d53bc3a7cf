// RUN: tcopt %s -p fuse-ops,lower-graph-to-te,te-inline,split-operations,lower-te-to-loop,schedule | filecheck %s
// RUN: tcopt %s -p fuse-ops,lower-graph-to-te,te-inline,split-operations,lower-te-to-loop,schedule,apply-schedule,compact-buffers,lower-blocks,inject-virtual-threads,place-sram,lower-loop-to-accelerator | filecheck %s --check-prefix=PROGRAM

// Bytes are loaded into registers, padded with the smallest byte; results start at the minimum and
// are compared with the registers of each tap. Tiles have two slots: one is stored while the other
// is computed.
// CHECK-LABEL: sched.sequence @fused_pad_cast_pool_cast_schedule for @fused_pad_cast_pool_cast attributes {rule = "vdla-pooling"
// CHECK:         %max_pool_init = sched.decompose_reduction %max_pool at %rz
// CHECK:         sched.reverse_compute_at %cast_1 at
// CHECK-NEXT:    sched.compute_at %cast at
// CHECK-NEXT:    sched.double_buffer %max_pool_init
// CHECK-NEXT:    sched.tensorize %max_pool as "vdla_max_1x16"
// CHECK-NEXT:    sched.tensorize %max_pool_init as "vdla_set_1x16_by_-2147483648"
// CHECK-NEXT:    sched.tensorize %cast as "vdla_load_acc8_1x16_by_-128"
// CHECK-NEXT:    sched.tensorize %cast_1 as "vdla_store_out_1x16"
// PROGRAM-LABEL: accelerator.program @fused_pad_cast_pool_cast
// PROGRAM:         vdla.gemm reset
// PROGRAM-NEXT:    vdla.alu add %{{.*}}, -32768
// PROGRAM-NEXT:    vdla.alu shr %{{.*}}, -16
// PROGRAM-NEXT:    vdla.load acc8 0, %x[0] : 2x12 pad [1, 0, 1, 0]
// PROGRAM:         vdla.alu min %{{.*}}, -128
// PROGRAM:         vdla.alu max %max
// PROGRAM-NEXT:    vdla.store out
module attributes {tcopt.target = #target.vdla<results = "i8", features = "alu,load_i8", inp_bytes = 2048, wgt_bytes = 8192, acc_bytes = 8192, uop_bytes = 1024>} {
func.func @main(%x: tensor<1x2x13x12x16xi8>) -> tensor<1x2x7x6x16xi8> {
  %m = graph.constant dense<-128> : tensor<i8>
  %g = graph.group kind = complex_out_fusable {
    %p = graph.pad %x, %m {low = [0, 0, 1, 1, 0], high = [0, 0, 1, 0, 0]} : tensor<1x2x15x13x16xi8>
    %0 = graph.cast %p : tensor<1x2x15x13x16xi32>
    %1 = graph.pool %0 {kind = max, kernel = [3, 3, 1], strides = [2, 2, 1]} : tensor<1x2x7x6x16xi32>
    %2 = graph.cast %1 : tensor<1x2x7x6x16xi8>
    graph.yield %2 : tensor<1x2x7x6x16xi8>
  } : tensor<1x2x7x6x16xi8>
  func.return %g : tensor<1x2x7x6x16xi8>
}
}
