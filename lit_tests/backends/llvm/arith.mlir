// RUN: tcopt %s --split-input-file -t llvm | filecheck %s

// Fast-math flags are preserved; multiplies and adds are fused only if both allow contraction.
func.func private @flags(%a: vector<16xf32>, %b: vector<16xf32>) -> vector<16xf32> {
  %p = arith.mulf %a, %b fastmath<contract> : vector<16xf32>
  %s = arith.addf %p, %a fastmath<fast> : vector<16xf32>
  %r = vector.fma %s, %a, %b : vector<16xf32>
  func.return %r : vector<16xf32>
}
// CHECK-LABEL: define hidden <16 x float> @tcopt.flags
// CHECK:       %[[P:.*]] = fmul contract <16 x float> %arg0, %arg1
// CHECK-NEXT:  %[[S:.*]] = fadd fast <16 x float> %[[P]], %arg0
// CHECK-NEXT:  call <16 x float> @llvm.fma.v16f32(<16 x float> %[[S]], <16 x float> %arg0, <16 x float> %arg1)

// -----

// A maximum with a constant is a single comparison that propagates NaN from the other operand.
func.func private @relu(%a: vector<16xf32>) -> vector<16xf32> {
  %z = arith.constant dense<0.0> : vector<16xf32>
  %r = arith.maximumf %a, %z : vector<16xf32>
  func.return %r : vector<16xf32>
}
// CHECK-LABEL: @tcopt.relu
// CHECK:       %[[C:.*]] = fcmp ogt <16 x float> zeroinitializer, %arg0
// CHECK-NEXT:  %[[R:.*]] = select <16 x i1> %[[C]], <16 x float> zeroinitializer, <16 x float> %arg0
// CHECK-NEXT:  ret <16 x float> %[[R]]

// -----

// Index arithmetic is folded symbolically and emitted only where its value is needed.
func.func private @index(%i: index, %j: index) -> index {
  %c3 = arith.constant 3 : index
  %c6 = arith.constant 6 : index
  %a = arith.muli %i, %c3 : index
  %b = arith.addi %a, %j : index
  %c = arith.subi %b, %j : index
  %d = arith.addi %c, %c6 : index
  func.return %d : index
}
// CHECK-LABEL: @tcopt.index
// CHECK-NEXT:  entry:
// CHECK-NEXT:  %[[A:.*]] = mul nsw i64 %arg0, 3
// CHECK-NEXT:  %[[D:.*]] = add nsw i64 %[[A]], 6
// CHECK-NEXT:  ret i64 %[[D]]

// A constant that is cast to an index folds into the address like any other constant.
func.func private @number(%x: memref<8xf32>) -> f32 {
  %two = arith.constant 2 : i64
  %0 = arith.index_cast %two : i64 to index
  %1 = memref.load %x[%0] : memref<8xf32>
  func.return %1 : f32
}
// CHECK-LABEL: @tcopt.number
// CHECK:         getelementptr i8, ptr %arg0, i64 8

// A select between indices keeps their common divisor, so the load is known to be aligned. A select
// between equal indices folds away.
func.func private @choose(%c: i1, %i: index, %y: memref<4xf32>) -> index {
  %x = memref.alloca() {alignment = 64 : i64} : memref<64xf32>
  %zero = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c12 = arith.constant 12 : index
  %a = arith.muli %i, %c12 : index
  %b = arith.addi %a, %c4 : index
  %0 = arith.select %c, %b, %zero : index
  %v = vector.load %x[%0] : memref<64xf32>, vector<4xf32>
  %1 = arith.select %c, %i, %i : index
  vector.store %v, %y[%zero] : memref<4xf32>, vector<4xf32>
  func.return %1 : index
}
// CHECK-LABEL: @tcopt.choose
// CHECK:         %[[M:.*]] = mul nsw i64 %arg1, 3
// CHECK-NEXT:    %[[A:.*]] = add nsw i64 %[[M]], 1
// CHECK-NEXT:    %[[S:.*]] = select i1 %arg0, i64 %[[A]], i64 0
// CHECK-NEXT:    %[[O:.*]] = shl nsw i64 %[[S]], 4
// CHECK-NEXT:    %[[P:.*]] = getelementptr i8, ptr %{{.*}}, i64 %[[O]]
// CHECK-NEXT:    load <4 x float>, ptr %[[P]], align 16
// CHECK-NOT:     select

// A rounded float converted to i32 becomes one conversion with rounding to nearest; conversions to
// other integers round first.
// CHECK-LABEL: define hidden void @tcopt.nearest
// CHECK:         %[[R:.*]] = call <16 x float> @llvm.roundeven.v16f32(<16 x float> %[[X:.*]])
// CHECK:         call <16 x i32> @llvm.lrint.v16i32.v16f32(<16 x float> %[[X]])
// CHECK:         fptosi <16 x float> %[[R]] to <16 x i64>
func.func private @nearest(%a: memref<16xf32>, %b: memref<16xi32>, %c: memref<16xi64>) {
  %0 = arith.constant 0 : index
  %x = vector.load %a[%0] : memref<16xf32>, vector<16xf32>
  %r = math.roundeven %x : vector<16xf32>
  %i = arith.fptosi %r : vector<16xf32> to vector<16xi32>
  %l = arith.fptosi %r : vector<16xf32> to vector<16xi64>
  vector.store %i, %b[%0] : memref<16xi32>, vector<16xi32>
  vector.store %l, %c[%0] : memref<16xi64>, vector<16xi64>
  return
}

// -----

// A 16-bit product uses the multiply-add of pairs with a zero second element.
// CHECK-LABEL: define hidden <8 x i32> @tcopt.words
// CHECK:         sext <8 x i16> %{{.*}} to <8 x i32>
// CHECK:         %[[W:.*]] = sext <8 x i16> %{{.*}} to <8 x i32>
// CHECK:         %[[X:.*]] = zext <8 x i16> %{{.*}} to <8 x i32>
// CHECK:         %[[A:.*]] = bitcast <8 x i32> %[[X]] to <16 x i16>
// CHECK:         %[[B:.*]] = bitcast <8 x i32> %[[W]] to <16 x i16>
// CHECK:         call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> %[[A]], <16 x i16> %[[B]])
// CHECK:         mul <3 x i32>
module attributes {tcopt.target = #target.cpu<triple = "x86_64-unknown-linux-gnu", cpu = "haswell", features = "+avx2,+fma", vector_bits = 256, registers = 16, l1 = 32768, l2 = 262144>} {
func.func private @words(%x: vector<8xi16>, %w: vector<8xi16>) -> vector<8xi32> {
  %a = arith.extsi %x : vector<8xi16> to vector<8xi32>
  %b = arith.extsi %w : vector<8xi16> to vector<8xi32>
  %r = arith.muli %a, %b : vector<8xi32>
  return %r : vector<8xi32>
}
func.func private @odd(%x: vector<3xi16>, %w: vector<3xi16>) -> vector<3xi32> {
  %a = arith.extsi %x : vector<3xi16> to vector<3xi32>
  %b = arith.extsi %w : vector<3xi16> to vector<3xi32>
  %r = arith.muli %a, %b : vector<3xi32>
  return %r : vector<3xi32>
}
}
