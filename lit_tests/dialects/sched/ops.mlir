// RUN: tcopt %s | tcopt | filecheck %s
// RUN: tcopt %s --print-op-generic | tcopt | filecheck %s

// Round trip of every schedule step.
// CHECK-LABEL: sched.sequence @steps for @f attributes {rule = "by-hand"} {
sched.sequence @steps for @f attributes {rule = "by-hand"} {
  // CHECK-NEXT: %mm = sched.get_block "mm"
  %mm = sched.get_block "mm"
  // CHECK-NEXT: %i, %j, %k = sched.get_loops %mm
  %i, %j, %k = sched.get_loops %mm
  // CHECK-NEXT: %tile = sched.knob "tile_j" of [16, 32, 64] = 32
  %tile = sched.knob "tile_j" of [16, 32, 64] = 32
  // CHECK-NEXT: %jo, %jm, %ji = sched.split %j by [?, 4, %tile]
  %jo, %jm, %ji = sched.split %j by [?, 4, %tile]
  // CHECK-NEXT: %f = sched.fuse %i, %jo
  %f = sched.fuse %i, %jo
  // CHECK-NEXT: sched.reorder %f, %k, %jm, %ji
  sched.reorder %f, %k, %jm, %ji
  // CHECK-NEXT: sched.parallel %f
  sched.parallel %f
  // CHECK-NEXT: sched.vectorize %ji
  sched.vectorize %ji
  // CHECK-NEXT: sched.unroll %jm
  sched.unroll %jm
  // CHECK-NEXT: sched.virtual_thread %k
  sched.virtual_thread %k
  // CHECK-NEXT: sched.bind %f to blockIdx.x
  sched.bind %f to blockIdx.x
  // CHECK-NEXT: sched.annotate %k "pipeline" = 2 : i64
  sched.annotate %k "pipeline" = 2 : i64
  // CHECK-NEXT: sched.annotate %mm "hot"
  sched.annotate %mm "hot" = unit
  // CHECK-NEXT: %pad = sched.get_block "pad"
  %pad = sched.get_block "pad"
  // CHECK-NEXT: sched.compute_at %pad at %f
  sched.compute_at %pad at %f
  // CHECK-NEXT: sched.reverse_compute_at %pad at %f
  sched.reverse_compute_at %pad at %f
  // CHECK-NEXT: sched.compute_inline %pad
  sched.compute_inline %pad
  // CHECK-NEXT: sched.reverse_compute_inline %pad
  sched.reverse_compute_inline %pad
  // CHECK-NEXT: sched.compute_in_place %pad of 0
  sched.compute_in_place %pad of 0
  // CHECK-NEXT: %store = sched.cache_write %mm into register
  %store = sched.cache_write %mm into register
  // CHECK-NEXT: %x = sched.cache_read %mm of "x" into shared
  %x = sched.cache_read %mm of "x" into shared
  // CHECK-NEXT: %w = sched.cache_read %mm of 1 into shared
  %w = sched.cache_read %mm of 1 into shared
  // CHECK-NEXT: sched.prefetch %mm buffer 1 ahead %j at %k
  sched.prefetch %mm buffer 1 ahead %j at %k
  // CHECK-NEXT: sched.set_scope %pad to local
  sched.set_scope %pad to local
  // CHECK-NEXT: sched.permute_layout %x to [1, 0]
  sched.permute_layout %x to [1, 0]
  // CHECK-NEXT: sched.pad_einsum %mm to [16, 8, 16]
  sched.pad_einsum %mm to [16, 8, 16]
  // CHECK-NEXT: %init = sched.decompose_reduction %mm at %k
  %init = sched.decompose_reduction %mm at %k
  // CHECK-NEXT: sched.tensorize %k as "bf16_dot"
  sched.tensorize %k as "bf16_dot"
  // CHECK-NEXT: sched.tensorize %mm as "bf16_dot"
  sched.tensorize %mm as "bf16_dot"
  // CHECK-NEXT: %rf = sched.rfactor %k
  %rf = sched.rfactor %k
  // CHECK-NEXT: %rf2 = sched.rfactor %k axis 1
  %rf2 = sched.rfactor %k axis 1
  // CHECK-NEXT: %u = sched.add_unit_loop %mm
  %u = sched.add_unit_loop %mm
  // CHECK-NEXT: %u_1 = sched.add_unit_loop %k
  %u_1 = sched.add_unit_loop %k
}

// The number of names before get_loops gives the number of loops.
// CHECK-LABEL: sched.sequence @counted for @f {
sched.sequence @counted for @f {
  // CHECK-NEXT: %b = sched.get_block "b"
  %b = sched.get_block "b"
  // CHECK-NEXT: %l, %l_1, %l_2 = sched.get_loops %b
  %l:3 = sched.get_loops %b
  // CHECK-NEXT: %m = sched.get_loops %b
  %m = sched.get_loops %b
  // CHECK-NEXT: sched.reorder %l, %l_2
  sched.reorder %l#0, %l#2
}

// Earlier steps and comments are not counted among the names.
// CHECK-LABEL: sched.sequence @after for @f {
sched.sequence @after for @f {
  // CHECK-NEXT: %b = sched.get_block "b"
  %b = sched.get_block "b"
  // CHECK-NEXT: %i, %j = sched.get_loops %b
  %i, %j = sched.get_loops %b
  // CHECK-NEXT: sched.reorder %j, %i
  // CHECK-NEXT: %k, %l, %m = sched.get_loops %b
  sched.reorder %j, %i
  %k, // the outermost, not %n,
  %l, %m = sched.get_loops %b
  // CHECK-NEXT: sched.fuse %k, %l
  // CHECK-NEXT: %o = sched.get_loops %b
  %f = sched.fuse %k, %l
  // such as %i, %j,
  %o = sched.get_loops %b
}

// Choices for graph operators.
// CHECK: sched.operator "77ab01" {nodes = ["Conv_3"], choice = {winograd = 4 : i64}}
sched.operator "77ab01" {nodes = ["Conv_3"], choice = {winograd = 4 : i64}}
