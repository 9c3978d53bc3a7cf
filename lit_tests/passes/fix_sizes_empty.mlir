// RUN: tcopt %s -p 'fix-sizes{n=0}' | filecheck %s

// A reduction without terms still initialises its results.
// CHECK:      loop.for %k = 0 to 8 {
// CHECK-NEXT:   loop.block "sum" (%vi: spatial 4 = %i, %vk: reduce 1 = %k) {
// CHECK-NEXT:     loop.init {
// CHECK-NEXT:       %0 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       loop.store %0, %y[%vi] : memref<4xf32>
// CHECK-NEXT:     }
// CHECK-NEXT:   }
loop.func @sum(%x: memref<4x8xf32, #size.dims<4, n[0:8]>>, %y: memref<4xf32>, %n: index)
    attributes {size.symbols = #size.dims<n[0:8]>} {
  loop.for %i = 0 to 4 {
    loop.for %k = 0 to 8 {
      loop.block "sum" (%vi: spatial 4 = %i, %vk: reduce n[0:8] = %k) {
        loop.init {
          %0 = arith.constant 0.0 : f32
          loop.store %0, %y[%vi] : memref<4xf32>
        }
        %1 = loop.load %x[%vi, %vk] : memref<4x8xf32, #size.dims<4, n[0:8]>>
        %2 = loop.load %y[%vi] : memref<4xf32>
        %3 = arith.addf %1, %2 : f32
        loop.store %3, %y[%vi] : memref<4xf32>
      }
    }
  }
}
