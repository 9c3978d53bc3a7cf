// RUN: tcopt %s | tcopt | filecheck %s
// RUN: tcopt %s --print-op-generic | tcopt | filecheck %s

// Empty bodies.
// CHECK-LABEL: loop.func @empty(%x: memref<8xf32>) {
// CHECK-NEXT:    loop.for %i = 0 to 8 {
// CHECK:         loop.block "b" (%v: spatial 8 = %{{[0-9]+}}) {
// CHECK:         loop.guard ([%{{[0-9]+}}] in 4) {
loop.func @empty(%x: memref<8xf32>) {
  loop.for %i = 0 to 8 {
  }
  loop.for %0 = 0 to 8 {
    loop.block "b" (%v: spatial 8 = %0) {
    }
  }
  loop.for %1 = 0 to 8 {
    loop.guard ([%1] in 4) {
    }
  }
}

// Names with arbitrary characters.
// CHECK-LABEL: loop.func @"\C3\BCber \22x\22\0A"(
// CHECK:         loop.block "na\C3\AFve{{.*}}\22" () attributes {"\C3\A4" = "\C3\B6\0A"} {
loop.func @"über \22x\22\n"(%x: memref<f32>) {
  loop.block "naïve\\\\\"" () attributes {"ä" = "ö\n"} {
  }
}

// Floats that are not finite or need many digits.
// CHECK-LABEL: loop.func @numbers(
// CHECK:         else inf
// CHECK:         else -inf
// CHECK:         else nan :
// CHECK:         else nan(0xFFF8000000000000) :
// CHECK:         else 123456792.0 :
// CHECK:         else -9223372036854775808 :
// CHECK:         loop.border %x outside [0 to 4] = nan : memref<4xf32>
loop.func @numbers(%x: memref<4xf32>, %n: memref<4xi64>) {
  %0 = loop.load %x[9] else inf : memref<4xf32>
  %1 = loop.load %x[9] else -inf : memref<4xf32>
  %2 = loop.load %x[9] else nan : memref<4xf32>
  %3 = loop.load %x[9] else -nan : memref<4xf32>
  %4 = loop.load %x[9] else 123456792.0 : memref<4xf32>
  %5 = loop.load %n[9] else -9223372036854775808 : memref<4xi64>
  loop.border %x outside [0 to 4] = nan : memref<4xf32>
}

// Additional attributes on every op.
// CHECK-LABEL: loop.func @attributes(
// CHECK:         loop.index [%i * 2] {note = 1 : i64}
// CHECK:         loop.mask ([%i] in 4 step 1) {note} : vector<8xi1>
// CHECK:         loop.guard ([%i] in 4) attributes {note = [1 : i64, 2 : i64]} {
// CHECK:         loop.prefetch %x[%i] locality 3 {note = "near"} : memref<8xf32>
// CHECK:         loop.border %x outside [0 to 8] = 0.000000e+00 {note} : memref<8xf32>
loop.func @attributes(%x: memref<8xf32>) {
  loop.for %i = 0 to 8 {
    %0 = loop.index [%i * 2] {note = 1}
    %1 = loop.mask ([%i] in 4 step 1) {note} : vector<8xi1>
    loop.guard ([%i] in 4) attributes {note = [1, 2]} {
      loop.prefetch %x[%i] locality 3 {note = "near"} : memref<8xf32>
    }
  }
  loop.border %x outside [0 to 8] = 0.0 {note} : memref<8xf32>
}

// A buffer slice inside a loop of the host.
// CHECK-LABEL: func.func @slices(
// CHECK:         loop.slice %x[%t] {note} : memref<4x8xf32>
func.func @slices(%x: memref<4x8xf32>, %t: index) {
  %0 = loop.slice %x[%t] {note} : memref<4x8xf32>
  func.return
}
