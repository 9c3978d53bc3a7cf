// RUN: tcopt %s --split-input-file | tcopt --split-input-file | filecheck %s

// Gathers and scatters have a base address and an offset for each lane.
func.func @gather(%m: memref<64xf32>, %i: index, %v: vector<4xi32>, %k: vector<4xi1>,
                  %p: vector<4xf32>) {
  %r = vector.gather %m[%i][%v], %k, %p : memref<64xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  vector.scatter %m[%i][%v], %k, %r : memref<64xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
  func.return
}
// CHECK-LABEL: func.func @gather
// CHECK:       %r = vector.gather %m[%i][%v], %k, %p : memref<64xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
// CHECK-NEXT:  vector.scatter %m[%i][%v], %k, %r : memref<64xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>

// -----

// Slices, shape casts and transposes of a vector.
func.func @shapes(%v: vector<4x8xf32>) {
  %a = vector.extract_strided_slice %v {offsets = [1, 2], sizes = [2, 4], strides = [1, 1]} : vector<4x8xf32> to vector<2x4xf32>
  %b = vector.insert_strided_slice %a, %v {offsets = [0, 0], strides = [1, 1]} : vector<2x4xf32> into vector<4x8xf32>
  %c = vector.shape_cast %b : vector<4x8xf32> to vector<32xf32>
  %d = vector.transpose %v, [1, 0] : vector<4x8xf32> to vector<8x4xf32>
  func.return
}
// CHECK-LABEL: func.func @shapes
// CHECK:       %a = vector.extract_strided_slice %v {offsets = [1 : i64, 2 : i64], sizes = [2 : i64, 4 : i64], strides = [1 : i64, 1 : i64]} : vector<4x8xf32> to vector<2x4xf32>
// CHECK-NEXT:  %b = vector.insert_strided_slice %a, %v {offsets = [0 : i64, 0 : i64], strides = [1 : i64, 1 : i64]} : vector<2x4xf32> into vector<4x8xf32>
// CHECK-NEXT:  %c = vector.shape_cast %b : vector<4x8xf32> to vector<32xf32>
// CHECK-NEXT:  %d = vector.transpose %v, [1, 0] : vector<4x8xf32> to vector<8x4xf32>

// -----

// Undefined vectors, and vectors made of scalars.
func.func @sources(%x: f32) -> f32 {
  %a = vector.constant_mask [3] : vector<4xi1>
  %b = vector.step : vector<4xindex>
  %c = vector.from_elements %x, %x : vector<2xf32>
  %d = vector.reduction <add>, %c : vector<2xf32> into f32
  %e = vector.reduction <maximumf>, %c, %d fastmath<nnan> : vector<2xf32> into f32
  func.return %e : f32
}
// CHECK-LABEL: func.func @sources
// CHECK:       %a = vector.constant_mask [3] : vector<4xi1>
// CHECK-NEXT:  %b = vector.step : vector<4xindex>
// CHECK-NEXT:  %c = vector.from_elements %x, %x : vector<2xf32>
// CHECK-NEXT:  %d = vector.reduction <add>, %c : vector<2xf32> into f32
// CHECK-NEXT:  %e = vector.reduction <maximumf>, %c, %d fastmath<nnan> : vector<2xf32> into f32
