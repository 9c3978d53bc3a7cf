// RUN: tcopt %s -p accelerator-check --split-input-file --verify-diagnostics | filecheck %s
// RUN: tcopt %s -p 'accelerator-check{print-proof=true}' --split-input-file --verify-diagnostics 2>&1 | filecheck %s --check-prefix=PROOF

// A program whose tokens order all dependent instructions is accepted unchanged.
// CHECK-LABEL: accelerator.program @right
// CHECK-NEXT:    vdla.load acc 0, %x[0] : 1x2 push(store)
// CHECK-NEXT:    vdla.store acc 0, %y[0] : 1x2 pop(compute) push(compute)
// CHECK-NEXT:    accelerator.finish pop(store)
// PROOF: accelerator-check: @right: 3 steps, at most compute->store 1, store->compute 1 tokens
accelerator.program @right(%x: memref<2x16xi32>, %y: memref<2x16xi32>) attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  vdla.load acc 0, %x[0] : 1x2 push(store)
  vdla.store acc 0, %y[0] : 1x2 pop(compute) push(compute)
  accelerator.finish pop(store)
}

// -----

// A store that may run before the load it depends on is a race; both are reported with locations.
// CHECK: invalid-ir: 'vdla.store': race: races with task 0 for acc: store acc 0, %y[0] : 1x2 push(compute), and load acc 0, %x[0] : 1x2 of "/conv1" (at step 1, "/relu1"); order-units lets units wait
accelerator.program @race(%x: memref<2x16xi32>, %y: memref<2x16xi32>) attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  vdla.load acc 0, %x[0] : 1x2 loc("/conv1")
  vdla.store acc 0, %y[0] : 1x2 push(compute) loc("/relu1")
  accelerator.finish pop(store)
}

// -----

// Races on buffers in memory are detected too.
// CHECK: race: races with task 2 for buffer 0 (x): store acc 0, %x[0] : 1x2 pop(compute) push(compute), and load acc 2, %x[0] : 1x2
accelerator.program @race_in_memory(%x: memref<2x16xi32>) attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  vdla.load acc 0, %x[0] : 1x2 push(store)
  vdla.store acc 0, %x[0] : 1x2 pop(compute) push(compute)
  vdla.load acc 2, %x[0] : 1x2
  accelerator.finish pop(store)
}

// -----

// Waiting for a token that is never sent is a deadlock.
// CHECK: 'vdla.load': deadlock: the compute unit waits forever for a token of store->compute
accelerator.program @deadlock(%x: memref<2x16xi32>, %y: memref<2x16xi32>) attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  vdla.load acc 0, %x[0] : 1x2 pop(store) push(store)
  vdla.store acc 0, %y[0] : 1x2 pop(compute) push(compute)
  accelerator.finish
}

// -----

// Every token that is sent must be consumed.
// CHECK: 'vdla.load': token left: 1 tokens of compute->load are left at the end
accelerator.program @left(%x: memref<2x16xi32>, %y: memref<2x16xi32>) attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  vdla.load acc 0, %x[0] : 1x2 push(load, store)
  vdla.store acc 0, %y[0] : 1x2 pop(compute) push(compute)
  accelerator.finish pop(store)
}

// -----

// All instructions must have completed when the program ends.
// CHECK: 'vdla.store': unfinished: may not be done when the program is over
accelerator.program @unfinished(%x: memref<2x16xi32>, %y: memref<2x16xi32>) attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  vdla.load acc 0, %x[0] : 1x2 push(store)
  vdla.store acc 0, %y[0] : 1x2 pop(compute)
  accelerator.finish
}

// -----

// A queue must have room for every token that may be sent before one is consumed.
// CHECK: 'vdla.load': overflow: compute->store may hold 2 tokens, it has room for 1
module attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768, tokens = 1>} {
  accelerator.program @overflow(%x: memref<2x16xi32>, %y: memref<2x16xi32>) {
    vdla.load acc 0, %x[0] : 1x1 push(store)
    vdla.load acc 1, %x[1] : 1x1 push(store)
    vdla.store acc 0, %y[0] : 1x1 pop(compute)
    vdla.store acc 1, %y[1] : 1x1 pop(compute) push(compute)
    accelerator.finish pop(store)
  }
}

// -----

// Micro-ops must be loaded before they are executed.
// CHECK: 'vdla.gemm': micro-ops 0 to 0 are executed, but not loaded
accelerator.program @micro_ops() attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  %k = vdla.kernel gemm at 0 [] {
    uop 0, 0, 0
  }
  vdla.gemm reset %k
  accelerator.finish
}

// -----

// All entries that a program uses must exist on the machine.
// CHECK: 'vdla.store': entries 2047 to 2048 of acc, which has 2048
accelerator.program @outside(%y: memref<2x16xi32>) attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  vdla.store acc 2047, %y[0] : 1x2
  accelerator.finish
}
