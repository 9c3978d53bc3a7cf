// RUN: tcopt %s -p lower-blocks --split-input-file | filecheck %s

// Rows of a tile: a copy for each number of rows, outside of the loops in it.
// CHECK-LABEL: loop.func @rows
// CHECK-NEXT:    %0 = loop.index [(%s0 + 1) floordiv 2]
// CHECK-NEXT:    loop.for %io = 0 to 20 limit %0 parallel {
// CHECK-NEXT:      loop.guard ([%io * -2 + %s0 - 2] in 39) {
// CHECK-NEXT:        loop.for %ii = 0 to 2 unrolled {
// CHECK-NEXT:          loop.for %j = 0 to 16 vectorized {
// CHECK-NEXT:            loop.load %x[%io * 2 + %ii, %j]
// CHECK:           loop.guard ([%io * -2 + %s0 - 1] in 1) {
// CHECK-NEXT:        loop.for %ii = 0 to 1 unrolled {
// CHECK-NEXT:          loop.for %j = 0 to 16 vectorized {
// CHECK-NEXT:            loop.load %x[%io * 2, %j]
loop.func @rows(%x: memref<40x16xf32, #size.dims<s0[1:40], 16>>, %y: memref<40x16xf32, #size.dims<s0[1:40], 16>>, %s0: index) attributes {size.symbols = #size.dims<s0[1:40]>} {
  loop.for %io = 0 to 20 parallel {
    loop.for %ii = 0 to 2 unrolled {
      loop.for %j = 0 to 16 vectorized {
        loop.block "copy" (%vi: spatial s0[1:40] = %io * 2 + %ii, %vj: spatial 16 = %j) {
          %a = loop.load %x[%vi, %vj] : memref<40x16xf32, #size.dims<s0[1:40], 16>>
          loop.store %a, %y[%vi, %vj] : memref<40x16xf32, #size.dims<s0[1:40], 16>>
        }
      }
    }
  }
}

// -----

// Columns: a copy for each number of vectors, the last of which keeps a condition for each lane.
// CHECK-LABEL: loop.func @columns
// CHECK:         loop.for %io = 0 to 4 limit %0 {
// CHECK-NEXT:      loop.guard ([%io * -32 + %s0 - 32] in 69) {
// CHECK-NEXT:        loop.for %im = 0 to 2 unrolled {
// CHECK-NEXT:          loop.for %ii = 0 to 16 vectorized {
// CHECK-NEXT:            loop.load
// CHECK:           loop.guard ([%io * -32 + %s0 - 1] in 31) {
// CHECK-NEXT:        loop.guard ([%io * -32 + %s0 - 17] in 15) {
// CHECK-NEXT:          loop.for %im = 0 to 2 unrolled {
// CHECK-NEXT:            loop.for %ii = 0 to 16 vectorized {
// CHECK-NEXT:              loop.guard ([%io * -32 + %im * -16 + %ii * -1 + %s0 - 1] in 100) {
// CHECK:             loop.guard ([%io * -32 + %s0 - 1] in 16) {
// CHECK-NEXT:          loop.for %im = 0 to 1 unrolled {
// CHECK-NEXT:            loop.for %ii = 0 to 16 vectorized {
// CHECK-NEXT:              loop.guard ([%io * -32 + %ii * -1 + %s0 - 1] in 100) {
loop.func @columns(%x: memref<100xf32, #size.dims<s0[1:100]>>, %y: memref<100xf32, #size.dims<s0[1:100]>>, %s0: index) attributes {size.symbols = #size.dims<s0[1:100]>} {
  loop.for %io = 0 to 4 {
    loop.for %im = 0 to 2 unrolled {
      loop.for %ii = 0 to 16 vectorized {
        loop.block "copy" (%vi: spatial s0[1:100] = %io * 32 + %im * 16 + %ii) {
          %a = loop.load %x[%vi] : memref<100xf32, #size.dims<s0[1:100]>>
          loop.store %a, %y[%vi] : memref<100xf32, #size.dims<s0[1:100]>>
        }
      }
    }
  }
}

// -----

// Steps of a reduction: the last ones are a serial loop with a limit.
// CHECK-LABEL: loop.func @sum
// CHECK-NEXT:    %0 = loop.index [(%s0 + 3) floordiv 4]
// CHECK-NEXT:    loop.for %ko = 0 to 25 limit %0 {
// CHECK-NEXT:      loop.guard ([%ko * -4 + %s0 - 4] in 97) {
// CHECK-NEXT:        loop.for %ki = 0 to 4 unrolled {
// CHECK-NEXT:          loop.load
// CHECK:           %1 = loop.index [%ko * -4 + %s0]
// CHECK-NEXT:      loop.guard ([%ko * -4 + %s0 - 1] in 3) {
// CHECK-NEXT:        loop.for %ki = 0 to 4 limit %1 {
// CHECK-NEXT:          loop.load
loop.func @sum(%x: memref<100xf32, #size.dims<s0[1:100]>>, %y: memref<1xf32>, %s0: index) attributes {size.symbols = #size.dims<s0[1:100]>} {
  loop.for %ko = 0 to 25 {
    loop.for %ki = 0 to 4 unrolled {
      loop.block "sum" (%v: spatial 1 = 0, %r: reduce s0[1:100] = %ko * 4 + %ki) {
        %a = loop.load %x[%r] : memref<100xf32, #size.dims<s0[1:100]>>
        %b = loop.load %y[%v] : memref<1xf32>
        %c = arith.addf %b, %a : f32
        loop.store %c, %y[%v] : memref<1xf32>
      }
    }
  }
}

// -----

// A loop that was fused with inner loops is limited as well.
// CHECK-LABEL: loop.func @fused
// CHECK:         %0 = loop.index [%s0 * 7]
// CHECK-NEXT:    loop.for %i_j = 0 to 210 limit %0 parallel {
loop.func @fused(%x: memref<30x7xf32, #size.dims<s0[1:30], 7>>, %s0: index) attributes {size.symbols = #size.dims<s0[1:30]>} {
  %a = arith.constant 1.0 : f32
  loop.for %i_j = 0 to 210 parallel {
    loop.block "b" (%vi: spatial s0[1:30] = %i_j floordiv 7, %vj: spatial 7 = %i_j mod 7) {
      loop.store %a, %x[%vi, %vj] : memref<30x7xf32, #size.dims<s0[1:30], 7>>
    }
  }
}

// -----

// If a single tile has room for all rows, the function has a copy for each number of them.
// CHECK-LABEL: loop.func @few
// CHECK-NEXT:    loop.guard ([%s0 - 4] in 1) {
// CHECK:           loop.for %i = 0 to 4 unrolled {
// CHECK:         loop.guard ([%s0 - 1] in 3) {
// CHECK-NEXT:      loop.guard ([%s0 - 3] in 1) {
// CHECK:             loop.for %i = 0 to 3 unrolled {
// CHECK:           loop.guard ([%s0 - 2] in 1) {
// CHECK:             loop.for %i = 0 to 2 unrolled {
// CHECK:           loop.guard ([%s0 - 1] in 1) {
// CHECK:             loop.for %i = 0 to 1 unrolled {
loop.func @few(%x: memref<4x8xf32, #size.dims<s0[1:4], 8>>, %s0: index) attributes {size.symbols = #size.dims<s0[1:4]>} {
  %a = arith.constant 1.0 : f32
  loop.for %j = 0 to 8 {
    loop.for %i = 0 to 4 unrolled {
      loop.block "b" (%vi: spatial s0[1:4] = %i, %vj: spatial 8 = %j) {
        loop.store %a, %x[%vi, %vj] : memref<4x8xf32, #size.dims<s0[1:4], 8>>
      }
    }
  }
}
