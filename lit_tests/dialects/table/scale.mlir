// RUN: tcopt %s --split-input-file --verify-diagnostics | filecheck %s

// Each value, scalar or vector lane, is scaled by an entry of the table.
// CHECK-LABEL: func.func @scale
// CHECK: table.scale %x by %i of [1.0, -0.5, 0.0] : f32
// CHECK: table.scale %v by %i of [2.0] {note} : vector<4xf32>
// CHECK: table.scale %x by %i of [3.0] fastmath<contract> : f32
// CHECK: table.scale %n by %i of [3.0, -1.0] : vector<8xi16>
func.func @scale(%x: f32, %v: vector<4xf32>, %n: vector<8xi16>, %i: index) {
  %0 = table.scale %x by %i of [1.0, -0.5, 0.0] : f32
  %1 = table.scale %v by %i of [2.0] {note} : vector<4xf32>
  %2 = table.scale %x by %i of [3.0] fastmath<contract> : f32
  %3 = table.scale %n by %i of [3.0, -1.0] : vector<8xi16>
  return
}

// -----

// Conditions cannot be scaled.
// CHECK: scales floats or integers, not i1
func.func @condition(%x: i1, %i: index) {
  %0 = table.scale %x by %i of [1.0] : i1
  return
}

// -----

// Integer values need integer tables.
// CHECK: entry 0.5 of a table for i32 is not an integer
func.func @integer(%x: i32, %i: index) {
  %0 = table.scale %x by %i of [1.0, 0.5] : i32
  return
}

// -----

// A table must not be empty.
// CHECK: the table is empty
func.func @empty(%x: f32, %i: index) {
  %0 = table.scale %x by %i of [] : f32
  return
}
