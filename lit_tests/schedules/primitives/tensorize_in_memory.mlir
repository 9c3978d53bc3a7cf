// REQUIRES: long
// RUN: tcopt %s -p apply-schedule --split-input-file --verify-diagnostics | filecheck %s
// RUN: tcopt %s -p apply-schedule --split-input-file --verify-diagnostics --verify-each=exec | filecheck %s

// Operands of accelerator intrinsics stay in the memories they are cached in. A copy that may read
// out of bounds writes zeros there.
// CHECK-LABEL: loop.func @product
// CHECK:         loop.intrin "vdla_load_inp_1x16" outs(%pad[%vi, %vk] by [0, 1] : memref<6x16xi8>) ins(%x[%vi - 1, %vk] by [0, 1] : memref<4x16xi8>)
// CHECK:         loop.intrin "vdla_load_wgt_16x16" outs(%w_acc_weight[%vd0, %vd1] by [1, 0] [0, 1] : memref<16x16xi8>) ins(%w[%vd0, %vd1] by [1, 0] [0, 1] : memref<16x16xi8>)
// CHECK:         loop.intrin "vdla_reset_1x16" outs(%y_acc_register[%vi, %vj] by [0, 1] : memref<6x16xi32>) ins()
// CHECK:         loop.intrin "vdla_gemm_1x16x16" outs(%y_acc_register[%vi, %vj] by [0, 1] : memref<6x16xi32>)
// CHECK-SAME:      ins(%pad[%vi, %vk] by [0, 1] : memref<6x16xi8>, %w_acc_weight[%vj, %vk] by [1, 0] [0, 1] : memref<16x16xi8>)
// CHECK:         loop.intrin "vdla_store_acc_1x16" outs(%y[%vd0, %vd1] by [0, 1] : memref<6x16xi32>) ins(%y_acc_register[%vd0, %vd1] by [0, 1] : memref<6x16xi32>)
loop.func @product(%x: memref<4x16xi8>, %w: memref<16x16xi8>, %y: memref<6x16xi32>) {
  %pad = loop.alloc global : memref<6x16xi8>
  loop.for %i = 0 to 6 {
    loop.for %k = 0 to 16 {
      loop.block "pad" (%vi: spatial 6 = %i, %vk: spatial 16 = %k) {
        %0 = loop.load %x[%vi - 1, %vk] else 0 : memref<4x16xi8>
        loop.store %0, %pad[%vi, %vk] : memref<6x16xi8>
      }
    }
  }
  loop.for %i = 0 to 6 {
    loop.for %j = 0 to 16 {
      loop.for %k = 0 to 16 {
        loop.block "mm" (%vi: spatial 6 = %i, %vj: spatial 16 = %j, %vk: reduce 16 = %k) {
          loop.init {
            %zero = arith.constant 0 : i32
            loop.store %zero, %y[%vi, %vj] : memref<6x16xi32>
          }
          %a = loop.load %pad[%vi, %vk] : memref<6x16xi8>
          %0 = arith.extsi %a : i8 to i32
          %b = loop.load %w[%vj, %vk] : memref<16x16xi8>
          %1 = arith.extsi %b : i8 to i32
          %c = arith.muli %0, %1 : i32
          %d = loop.load %y[%vi, %vj] : memref<6x16xi32>
          %e = arith.addi %d, %c : i32
          loop.store %e, %y[%vi, %vj] : memref<6x16xi32>
        }
      }
    }
  }
}
sched.sequence @s for @product {
  %mm = sched.get_block "mm"
  %pad = sched.get_block "pad"
  %out = sched.cache_write %mm into acc_register
  %weights = sched.cache_read %mm of "w" into acc_weight
  sched.set_scope %pad to acc_input
  %i, %j, %k = sched.get_loops %mm
  %init = sched.decompose_reduction %mm at %j
  sched.tensorize %init as "vdla_reset_1x16"
  sched.tensorize %pad as "vdla_load_inp_1x16"
  sched.tensorize %weights as "vdla_load_wgt_16x16"
  sched.tensorize %mm as "vdla_gemm_1x16x16"
  sched.tensorize %out as "vdla_store_acc_1x16"
}

// -----

// The shape is part of the name: a member of a family must have the family's number of extents.
// CHECK: tensorize: argument 'intrinsic': there is no intrinsic 'vdla_gemm_16x16' (at {{.*}}); vdla_gemm has 3 extents
loop.func @f(%y: memref<16xi32>) {
  loop.for %i = 0 to 16 {
    loop.block "b" (%vi: spatial 16 = %i) {
      %0 = arith.constant 0 : i32
      loop.store %0, %y[%vi] : memref<16xi32>
    }
  }
}
sched.sequence @s for @f {
  %b = sched.get_block "b"
  sched.tensorize %b as "vdla_gemm_16x16"
}

// -----

// Operands must be in the memories that the intrinsic declares.
// CHECK: tensorize: argument 'target': operand 'out' is in global, not in acc_register (at {{.*}}); cache_read, cache_write and set_scope put buffers into memories
loop.func @f(%y: memref<16xi32>) {
  loop.for %i = 0 to 16 {
    loop.block "b" (%vi: spatial 16 = %i) {
      %0 = arith.constant 0 : i32
      loop.store %0, %y[%vi] : memref<16xi32>
    }
  }
}
sched.sequence @s for @f {
  %b = sched.get_block "b"
  sched.tensorize %b as "vdla_reset_1x16"
}

// -----

// Out-of-bounds elements must be zero.
// CHECK: the loops do not match intrinsic 'vdla_load_inp_1x16': a read of %x has a default, and the intrinsic's 'x' has none of it
loop.func @f(%x: memref<14xi8>, %y: memref<16xi8>) {
  %a = loop.alloc acc_input : memref<16xi8>
  loop.for %i = 0 to 16 {
    loop.block "b" (%vi: spatial 16 = %i) {
      %0 = loop.load %x[%vi - 1] else 1 : memref<14xi8>
      loop.store %0, %a[%vi] : memref<16xi8>
    }
  }
}
sched.sequence @s for @f {
  %b = sched.get_block "b"
  sched.tensorize %b as "vdla_load_inp_1x16"
}

// -----

// A stored constant must be the intrinsic's.
// CHECK: the loops do not match intrinsic 'vdla_reset_1x16': arith.constant has other attributes than the intrinsic's
loop.func @f(%y: memref<16xi32>) {
  %a = loop.alloc acc_register : memref<16xi32>
  loop.for %i = 0 to 16 {
    loop.block "b" (%vi: spatial 16 = %i) {
      %0 = arith.constant 1 : i32
      loop.store %0, %a[%vi] : memref<16xi32>
    }
  }
}
sched.sequence @s for @f {
  %b = sched.get_block "b"
  sched.tensorize %b as "vdla_reset_1x16"
}
