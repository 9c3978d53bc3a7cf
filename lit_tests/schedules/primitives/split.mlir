// RUN: tcopt %s -p apply-schedule --split-input-file --verify-diagnostics | filecheck %s

// An open factor is inferred.
// CHECK:         loop.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {
// CHECK:           loop.for %io = 0 to 4 {
// CHECK:             loop.for %ii = 0 to 16 {
// CHECK:               loop.block "copy" (%vi: spatial 64 = %io * 16 + %ii) {
loop.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {
  loop.for %i = 0 to 64 {
    loop.block "copy" (%vi: spatial 64 = %i) {
      %a = loop.load %x[%vi] : memref<64xf32>
      loop.store %a, %y[%vi] : memref<64xf32>
    }
  }
}
sched.sequence @s for @f {
  %copy = sched.get_block "copy"
  %i = sched.get_loops %copy
  %io, %ii = sched.split %i by [?, 16]
}

// -----

// Factors need not divide the extent: iterations past the end are outside the block's domain.
// CHECK:         loop.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {
// CHECK:           loop.for %io = 0 to 5 {
// CHECK:             loop.for %im = 0 to 3 {
// CHECK:               loop.for %ii = 0 to 5 {
// CHECK:                 loop.block "copy" (%vi: spatial 64 = %io * 15 + %im * 5 + %ii) {
loop.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {
  loop.for %i = 0 to 64 {
    loop.block "copy" (%vi: spatial 64 = %i) {
      %a = loop.load %x[%vi] : memref<64xf32>
      loop.store %a, %y[%vi] : memref<64xf32>
    }
  }
}
sched.sequence @s for @f {
  %copy = sched.get_block "copy"
  %i = sched.get_loops %copy
  %io, %im, %ii = sched.split %i by [?, 3, 5]
}

// -----

// Splitting a tile that the factor does not divide adds a variable that guards the tile's end.
// CHECK:         loop.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {
// CHECK:           loop.for %io = 0 to 4 {
// CHECK:             loop.for %iio = 0 to 4 {
// CHECK:               loop.for %iii = 0 to 5 {
// CHECK:                 loop.block "copy" (%vi: spatial 64 = %io * 16 + %iio * 5 + %iii, %guard: spatial 16 = %iio * 5 + %iii) {
loop.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {
  loop.for %i = 0 to 64 {
    loop.block "copy" (%vi: spatial 64 = %i) {
      %a = loop.load %x[%vi] : memref<64xf32>
      loop.store %a, %y[%vi] : memref<64xf32>
    }
  }
}
sched.sequence @s for @f {
  %copy = sched.get_block "copy"
  %i = sched.get_loops %copy
  %io, %ii = sched.split %i by [?, 16]
  %iio, %iii = sched.split %ii by [?, 5]
}

// -----

// Factors can be knobs.
// CHECK:         loop.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {
// CHECK:           loop.for %io = 0 to 8 {
// CHECK:             loop.for %ii = 0 to 8 {
// CHECK:               loop.block "copy" (%vi: spatial 64 = %io * 8 + %ii) {
loop.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {
  loop.for %i = 0 to 64 {
    loop.block "copy" (%vi: spatial 64 = %i) {
      %a = loop.load %x[%vi] : memref<64xf32>
      loop.store %a, %y[%vi] : memref<64xf32>
    }
  }
}
sched.sequence @s for @f {
  %copy = sched.get_block "copy"
  %i = sched.get_loops %copy
  %tile = sched.knob "tile" of [4, 8, 16] = 8
  %io, %ii = sched.split %i by [?, %tile]
}

// -----

// Factors that do not cover the loop are rejected.
// CHECK:       illegal-schedule: 'sched.split': split: argument 'factors': their product 48 is less than the loop's 64 iterations
loop.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {
  loop.for %i = 0 to 64 {
    loop.block "copy" (%vi: spatial 64 = %i) {
      %a = loop.load %x[%vi] : memref<64xf32>
      loop.store %a, %y[%vi] : memref<64xf32>
    }
  }
}
sched.sequence @s for @f {
  %copy = sched.get_block "copy"
  %i = sched.get_loops %copy
  %io, %ii = sched.split %i by [3, 16]
}

// -----

// A loop that is not serial cannot be split.
// CHECK:       illegal-schedule: 'sched.split': split: argument 'loop': it is parallel, not serial
loop.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {
  loop.for %i = 0 to 64 {
    loop.block "copy" (%vi: spatial 64 = %i) {
      %a = loop.load %x[%vi] : memref<64xf32>
      loop.store %a, %y[%vi] : memref<64xf32>
    }
  }
}
sched.sequence @s for @f {
  %copy = sched.get_block "copy"
  %i = sched.get_loops %copy
  sched.parallel %i
  %io, %ii = sched.split %i by [?, 16]
}

// -----

// A loop that was already split no longer exists.
// CHECK:       illegal-schedule: 'sched.parallel': loop %i is gone: it was split into %io, %ii
loop.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {
  loop.for %i = 0 to 64 {
    loop.block "copy" (%vi: spatial 64 = %i) {
      %a = loop.load %x[%vi] : memref<64xf32>
      loop.store %a, %y[%vi] : memref<64xf32>
    }
  }
}
sched.sequence @s for @f {
  %copy = sched.get_block "copy"
  %i = sched.get_loops %copy
  %io, %ii = sched.split %i by [?, 16]
  sched.parallel %i
}
