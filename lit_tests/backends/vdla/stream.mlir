// RUN: tcopt %s -t vdla | filecheck %s
// RUN: tcopt %s -t 'vdla{machine=pynq}' | filecheck %s --check-prefix=OTHER

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
  vdla.program @f(%x: memref<4x16xi8>, %y: memref<2x16xi8>) {
    %k = vdla.kernel gemm at 0 [2] dst [1] src [1] wgt [0] {
      uop 1, 0, 1
    }
    vdla.load_uops %k
    vdla.load inp 0, %x[0] : 1x4 pad [1, 0, 0, 1] push(compute) loc("/layer1.0/conv1")
    vdla.gemm reset %k pop(load) push(store)
    vdla.store out 0, %y[0] : 1x2 pop(compute) push(compute)
    vdla.finish pop(store)
  }
}
