// RUN: tcopt %s -p encode-accelerator --split-input-file --verify-diagnostics | filecheck %s

// A program becomes a function that the host calls and the runtime defines. VDLA instructions and
// micro-ops are encoded as in docs/vdla.md, low half first.
// CHECK-LABEL: func.func @main(%x: memref<4x16xi8>, %y: memref<2x16xi8>)
// CHECK-NEXT:    loop.call @f(%x, %y) : memref<4x16xi8>, memref<2x16xi8>
// CHECK:       func.func private @f(memref<4x16xi8>, memref<2x16xi8>)
// CHECK-SAME:    tcopt.host_call = {function = "accelerator_run"
// CHECK-SAME:    accelerator = "target.vdla", program = "f"
// CHECK-SAME:    machine = ["results=i8", {{.*}}"queue=512", "tokens=1024"]
// CHECK-SAME:    buffers = ["x", "y"], addresses = [256 : i64, 512 : i64]
// CHECK-SAME:    micro_ops = "01004000"
// CHECK-SAME:    instructions = "0000000000000000010001000100000040010040000000000100040004000110ca002000080004000008000002000000{{[0-9a-f]*}}"
module attributes {tcopt.target = #target.vdla<results = "i8", inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  func.func @main(%x: memref<4x16xi8>, %y: memref<2x16xi8>) {
    loop.call @f(%x, %y) : memref<4x16xi8>, memref<2x16xi8>
    func.return
  }
  accelerator.program @f(%x: memref<4x16xi8>, %y: memref<2x16xi8>) {
    %k = vdla.kernel gemm at 0 [2] dst [1] src [1] wgt [0] {
      uop 1, 0, 1
    }
    vdla.load_uops %k
    vdla.load inp 0, %x[0] : 1x4 pad [1, 0, 0, 1] push(compute)
    vdla.gemm reset %k pop(load) push(store)
    vdla.store out 0, %y[0] : 1x2 pop(compute) push(compute)
    accelerator.finish pop(store)
  }
}

// -----

// A program that fails the synchronisation proof is not encoded.
// CHECK: 'vdla.store': race: races with task 0 for acc
accelerator.program @race(%x: memref<2x16xi32>, %y: memref<2x16xi32>) attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {
  vdla.load acc 0, %x[0] : 1x2
  vdla.store acc 0, %y[0] : 1x2 push(compute)
  accelerator.finish pop(store)
}
