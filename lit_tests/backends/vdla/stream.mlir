// RUN: tcopt %s --split-input-file -t vdla | filecheck %s
// RUN: tcopt %s --split-input-file -t 'vdla{machine=pynq}' | filecheck %s --check-prefix=OTHER

// A program is printed as 128-bit instructions, low half first, and its micro-ops, each with its
// meaning and location. Buffer addresses follow the table of micro-ops.
// CHECK:      .program "f"
// CHECK-NEXT: .buffer "x" i8 [4, 16] at 0x100
// CHECK-NEXT: .buffer "y" i8 [2, 16] at 0x200
// CHECK-NEXT: .micro_ops at 0x0
// CHECK-NEXT:   0: 00400001 ; 1, 0, 1
// CHECK-NEXT: .instructions
// CHECK-NEXT:   0: 0000000000000000 0000000100010001 ; compute: load uop 0, micro_ops[0] : 1x1
// CHECK-NEXT:   1: 0000000040000140 1001000400040001 ; load: load inp 0, x[0] : 1x4 pad [1, 0, 0, 1] push(compute) at "/layer1.0/conv1"
// CHECK-NEXT:   2: 00040008002000ca 0000000200000800 ; compute: gemm reset 0 to 1 [1, 2] dst [0, 1] src [0, 1] wgt [0, 0] pop(load) push(store)
// CHECK-NEXT:   3: 0000000080000229 0000000200020001 ; store: store out 0, y[0] : 1x2 pop(compute) push(compute)
// CHECK-NEXT:   4: 0000000000000013 0000000000000000 ; compute: finish pop(store)
// OTHER:      .program "f"
module attributes {tcopt.target = #target.vdla<results = "i8", inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  accelerator.program @f(%x: memref<4x16xi8>, %y: memref<2x16xi8>) {
    %k = vdla.kernel gemm at 0 [2] dst [1] src [1] wgt [0] {
      uop 1, 0, 1
    }
    vdla.load_uops %k
    vdla.load inp 0, %x[0] : 1x4 pad [1, 0, 0, 1] push(compute) loc("/layer1.0/conv1")
    vdla.gemm reset %k pop(load) push(store)
    vdla.store out 0, %y[0] : 1x2 pop(compute) push(compute)
    accelerator.finish pop(store)
  }
}

// -----

// A relay is a load of a micro-op that is already loaded; of any, if there is none.
// CHECK:      .program "relays"
// CHECK:        1: {{.*}} ; compute: load uop 3, micro_ops[0] : 1x2
// CHECK-NEXT:   2: {{.*}} ; compute: load uop 3, micro_ops[0] : 1x1 pop(store) push(load)
// CHECK:      .program "only_relay"
// CHECK:        0: 00000000 ; 0, 0, 0
// CHECK:        0: {{.*}} ; compute: load uop 0, micro_ops[0] : 1x1 pop(load)
accelerator.program @relays() {
  %k = vdla.kernel gemm at 3 [] {
    uop 0, 0, 0
    uop 1, 0, 0
  }
  accelerator.relay compute pop(load)
  vdla.load_uops %k
  accelerator.relay compute pop(store) push(load)
  accelerator.finish
}
accelerator.program @only_relay() {
  accelerator.relay compute pop(load)
  accelerator.finish
}
