// RUN: tcopt %s -p lower-te-to-loop,lower-blocks --verify-each=exec 2>&1 >/dev/null | filecheck %s
// RUN: not tcopt %s --load %S/Inputs/wrong_passes.py -p lower-te-to-loop,add-to-subtract,lower-blocks --verify-each=exec 2>&1 | filecheck %s --check-prefix WRONG

// Correct passes are confirmed one by one.
te.func @scale_shift(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %y = te.compute "y" [%i = 3, %j = 4] : tensor<3x4xf32> {
    %v = te.read %x[%i, %j] : tensor<3x4xf32>
    %w = arith.mulf %v, %v : f32
    %s = arith.addf %w, %v : f32
    te.yield %s : f32
  }
  te.return %y : tensor<3x4xf32>
}

// CHECK:      // exec: @scale_shift run before the first pass
// CHECK-NEXT: // exec: lower-te-to-loop: same values, 2 compared
// CHECK-NEXT: // exec: lower-blocks: same values, 1 compared

// The first pass that changes results is reported, with the largest difference.
// WRONG:      // exec: lower-te-to-loop: same values
// WRONG-NOT:  lower-blocks
// WRONG:      tcopt: mismatch: pass 'add-to-subtract' changed stage "y" of @scale_shift: max difference {{.*}} was expected, beyond {{.*}} elements differ
