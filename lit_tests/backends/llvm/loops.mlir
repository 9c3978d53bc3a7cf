// RUN: tcopt %s --split-input-file -t llvm | filecheck %s

// A loop with constant bounds is tested at its end; addresses share their invariant part.
func.func private @row(%a: memref<8x64xf32>, %i: index) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %z = arith.constant dense<0.0> : vector<16xf32>
  scf.for %j = %c0 to %c64 step %c32 {
    vector.store %z, %a[%i, %j] : memref<8x64xf32>, vector<16xf32>
    %k = arith.addi %j, %c16 : index
    vector.store %z, %a[%i, %k] : memref<8x64xf32>, vector<16xf32>
  }
  func.return
}
// CHECK-LABEL: define hidden void @tcopt.row(ptr noalias nonnull align 4 %arg0, i64 %arg1)
// CHECK:       %[[ROW:.*]] = shl nsw i64 %arg1, 8
// CHECK-NEXT:  %[[BASE:.*]] = getelementptr i8, ptr %arg0, i64 %[[ROW]]
// CHECK-NEXT:  br label %[[HEAD:.*]]
// CHECK:       %[[J:.*]] = phi i64 [ 0, %entry ], [ %[[NEXT:.*]], %[[HEAD]] ]
// CHECK-NEXT:  %[[OFFSET:.*]] = shl nsw i64 %[[J]], 2
// CHECK-NEXT:  %[[P:.*]] = getelementptr i8, ptr %[[BASE]], i64 %[[OFFSET]]
// CHECK-NEXT:  store <16 x float> zeroinitializer, ptr %[[P]], align 4
// CHECK-NEXT:  %[[Q:.*]] = getelementptr i8, ptr %[[P]], i64 64
// CHECK-NEXT:  store <16 x float> zeroinitializer, ptr %[[Q]], align 4
// CHECK-NEXT:  %[[NEXT]] = add nsw i64 %[[J]], 32
// CHECK-NEXT:  %[[AGAIN:.*]] = icmp slt i64 %[[NEXT]], 64
// CHECK-NEXT:  br i1 %[[AGAIN]], label %[[HEAD]], label %{{.*}}, !llvm.loop !0

// -----

// A parallel loop becomes a body function that threads call for the ranges they claim.
func.func @main(%a: memref<64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %z = arith.constant 0.0 : f32
  "scf.parallel"(%c0, %c64, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    memref.store %z, %a[%i] : memref<64xf32>
    scf.reduce
  }) {grain = 4 : index} : (index, index, index) -> ()
  func.return
}
// CHECK:       @tcopt_num_threads = external global i32
// CHECK-LABEL: define internal void @tcopt.main.body0(ptr nonnull align 4 %c0, i64 %begin, i64 %end)
// CHECK-LABEL: define internal void @tcopt.main.task0(ptr %ctx, i64 %begin, i64 %end)
// CHECK:         call void @tcopt.main.body0(ptr %c0, i64 %begin, i64 %end)
// CHECK-LABEL: define void @tcopt.main(ptr nonnull align 4 %arg0)
// CHECK:         call void @tcopt_parallel(ptr @tcopt.main.task0, ptr %{{.*}}, i64 64, i64 4, i32 %{{.*}})
// CHECK:         call void @tcopt.main.body0(ptr %arg0, i64 0, i64 64)
// CHECK-LABEL: define i32 @tcopt_main(ptr %args)
// CHECK:         call void @tcopt.main(ptr %p0)
// CHECK:       !0 = distinct !{!0, !1}
// CHECK-NEXT:  !1 = !{!"llvm.loop.unroll.disable"}

// -----

// A prefetch becomes the LLVM intrinsic for a data read.
func.func private @near(%a: memref<8x64xf32>, %i: index) {
  memref.prefetch %a[%i, %i], read, locality<2>, data : memref<8x64xf32>
  func.return
}
// CHECK-LABEL: define hidden void @tcopt.near
// CHECK:       call void @llvm.prefetch.p0(ptr %{{.*}}, i32 0, i32 2, i32 1)
