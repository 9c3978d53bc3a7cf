// RUN: tcopt %s -p order-units,accelerator-check --split-input-file | filecheck %s
// RUN: tcopt %s -p order-units --remarks --split-input-file -o /dev/null 2>&1 | filecheck %s --check-prefix=PLAN
// RUN: tcopt %s -p order-units,order-units --split-input-file | filecheck %s
// RUN: tcopt %s -p 'order-units{rule=neighbours}' --split-input-file | filecheck %s --check-prefix=VTA

// A gemm waits for its inputs, with one token for both loads; a load waits for the gemm that read
// the entries it overwrites, while the load before it, to other entries, does not.
// CHECK-LABEL: accelerator.program @slots
// CHECK:         vdla.gemm reset %k{{$}}
// CHECK-NEXT:    vdla.load inp 0, %x[0] : 1x4{{$}}
// CHECK-NEXT:    vdla.load wgt 0, %w[0] : 1x1 push(compute)
// CHECK-NEXT:    vdla.gemm %k pop(load) push(load)
// CHECK-NEXT:    vdla.load inp 4, %x[4] : 1x4{{$}}
// CHECK-NEXT:    vdla.load inp 0, %x[8] : 1x4 pop(compute) push(compute)
// CHECK-NEXT:    vdla.gemm %k pop(load) push(store)
// CHECK-NEXT:    vdla.store acc 0, %y[0] : 1x4 pop(compute) push(compute)
// CHECK-NEXT:    accelerator.finish pop(store)

// The plan gives the reason for each token.
// PLAN:      done: order-units: @slots ({{.*}}): 5 tokens for 6 dependences
// PLAN-NEXT: @slots ({{.*}}): load->compute: 4 after 3 (RAW wgt)
// PLAN-NEXT: @slots ({{.*}}): load->compute: 7 after 6 (RAW inp)
// PLAN-NEXT: @slots ({{.*}}): compute->load: 6 after 4 (WAR inp)
// PLAN-NEXT: @slots ({{.*}}): compute->store: 8 after 7 (RAW acc)
// PLAN-NEXT: @slots ({{.*}}): store->compute: 9 after 8 (end)

// By VTA's rule units of adjacent statements synchronise whatever they access: the first load waits
// for an unrelated reset.
// VTA-LABEL: accelerator.program @slots
// VTA:         vdla.gemm reset %k push(load)
// VTA-NEXT:    vdla.load inp 0, %x[0] : 1x4 pop(compute)
module attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  accelerator.program @slots(%x: memref<12x16xi8>, %w: memref<2x16x16xi8>, %y: memref<8x16xi32>) {
    %k = vdla.kernel gemm at 0 [4] dst [1] src [1] wgt [0] {
      uop 0, 0, 0
    }
    vdla.load_uops %k
    vdla.gemm reset %k
    vdla.load inp 0, %x[0] : 1x4
    vdla.load wgt 0, %w[0] : 1x1
    vdla.gemm %k
    vdla.load inp 4, %x[4] : 1x4
    vdla.load inp 0, %x[8] : 1x4
    vdla.gemm %k
    vdla.store acc 0, %y[0] : 1x4
    accelerator.finish
  }
}

// -----

// A load of what a store wrote is ordered by the compute instruction between them, with a token to
// it and one from it; an instruction that already waits for the store is used.
// CHECK-LABEL: accelerator.program @through_compute
// CHECK:         vdla.store out 0, %m[0] : 1x2 pop(compute) push(compute)
// CHECK-NEXT:    vdla.gemm reset %k pop(store) push(load)
// CHECK-NEXT:    vdla.gemm reset %k{{$}}
// CHECK-NEXT:    vdla.load inp 0, %m[1] : 1x1 pop(compute) push(compute)
// CHECK-NEXT:    accelerator.finish pop(load)
module attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768, results = "i8">} {
  accelerator.program @through_compute(%m: memref<8x16xi8>) {
    %k = vdla.kernel gemm at 0 [2] dst [1] src [1] wgt [0] {
      uop 0, 0, 0
    }
    vdla.load_uops %k
    vdla.gemm reset %k
    vdla.store out 0, %m[0] : 1x2
    vdla.gemm reset %k
    vdla.gemm reset %k
    vdla.load inp 0, %m[1] : 1x1
    accelerator.finish
  }
}

// -----

// Without a compute instruction between them, a relay is inserted.
// CHECK-LABEL: accelerator.program @relay
// CHECK:         vdla.store out 0, %m[0] : 1x2 pop(compute) push(compute)
// CHECK-NEXT:    accelerator.relay compute pop(store) push(load)
// CHECK-NEXT:    vdla.load inp 0, %m[1] : 1x1 pop(compute) push(compute)
// CHECK-NEXT:    accelerator.finish pop(load)
module attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768, results = "i8">} {
  accelerator.program @relay(%m: memref<8x16xi8>) {
    %large = vdla.kernel gemm at 0 [] {
      uop 0, 0, 0
      uop 1, 0, 0
    }
    %small = vdla.kernel gemm at 2 [] {
      uop 0, 0, 0
    }
    vdla.load_uops %large, %small
    vdla.gemm reset %large
    vdla.store out 0, %m[0] : 1x2
    vdla.load inp 0, %m[1] : 1x1
    accelerator.finish
  }
}

// -----

// So it is in a program without micro-ops.
// CHECK-LABEL: accelerator.program @no_micro_ops
// CHECK-NEXT:    vdla.load acc8 0, %m[2] : 1x2{{$}}
// CHECK-NEXT:    vdla.load inp 0, %m[0] : 1x2 push(compute)
// CHECK-NEXT:    accelerator.relay compute pop(load) push(store)
// CHECK-NEXT:    vdla.store out 0, %m[0] : 1x2 pop(compute) push(compute)
// CHECK-NEXT:    accelerator.finish pop(store)
module attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768, results = "i8", features = "load_i8">} {
  accelerator.program @no_micro_ops(%m: memref<8x16xi8>) {
    vdla.load acc8 0, %m[2] : 1x2
    vdla.load inp 0, %m[0] : 1x2
    vdla.store out 0, %m[0] : 1x2
    accelerator.finish
  }
}

// -----

// If a queue holds only one token, no second is sent: one token covers all dependences.
// CHECK-LABEL: accelerator.program @short_queues
// CHECK-NEXT:    vdla.load acc 0, %x[0] : 1x1{{$}}
// CHECK-NEXT:    vdla.load acc 1, %x[1] : 1x1{{$}}
// CHECK-NEXT:    vdla.load acc 2, %x[2] : 1x1{{$}}
// CHECK-NEXT:    vdla.load acc 3, %x[3] : 1x1 push(store)
// CHECK-NEXT:    vdla.store acc 0, %y[0] : 1x1 pop(compute)
// CHECK-NEXT:    vdla.store acc 1, %y[1] : 1x1{{$}}
// CHECK-NEXT:    vdla.store acc 2, %y[2] : 1x1{{$}}
// CHECK-NEXT:    vdla.store acc 3, %y[3] : 1x1 push(compute)
// CHECK-NEXT:    accelerator.finish pop(store)
module attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768, tokens = 1>} {
  accelerator.program @short_queues(%x: memref<8x16xi32>, %y: memref<8x16xi32>) {
    vdla.load acc 0, %x[0] : 1x1
    vdla.load acc 1, %x[1] : 1x1
    vdla.load acc 2, %x[2] : 1x1
    vdla.load acc 3, %x[3] : 1x1
    vdla.store acc 0, %y[0] : 1x1
    vdla.store acc 1, %y[1] : 1x1
    vdla.store acc 2, %y[2] : 1x1
    vdla.store acc 3, %y[3] : 1x1
    accelerator.finish
  }
}
