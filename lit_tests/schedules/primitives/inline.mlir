// RUN: tcopt %s -p apply-schedule --split-input-file --verify-diagnostics | filecheck %s

// The computation replaces the read, at the reader's indices.
// CHECK:         loop.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {
// CHECK:           loop.for %i = 0 to 64 {
// CHECK:             loop.block "use" (%vi: spatial 64 = %i) {
// CHECK:               %a = loop.load %x[%vi * -1 + 63] : memref<64xf32>
// CHECK:               %b = arith.addf %a, %a : f32
// CHECK:               loop.store %b, %y[%vi] : memref<64xf32>
// CHECK:             }
// CHECK:           }
// CHECK:         }
loop.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {
  %t = loop.alloc global : memref<64xf32>
  loop.for %i = 0 to 64 {
    loop.block "double" (%vi: spatial 64 = %i) {
      %a = loop.load %x[%vi] : memref<64xf32>
      %b = arith.addf %a, %a : f32
      loop.store %b, %t[%vi] : memref<64xf32>
    }
  }
  loop.for %i = 0 to 64 {
    loop.block "use" (%vi: spatial 64 = %i) {
      %r = loop.load %t[-1 * %vi + 63] : memref<64xf32>
      loop.store %r, %y[%vi] : memref<64xf32>
    }
  }
}
sched.sequence @s for @f {
  %double = sched.get_block "double"
  sched.compute_inline %double
}

// -----

// If a read may be out of bounds, a select on its indices yields the default.
// CHECK:         loop.func @f(%x: memref<64xf32>, %y: memref<66xf32>) {
// CHECK:           loop.for %i = 0 to 66 {
// CHECK:             loop.block "use" (%vi: spatial 66 = %i) {
// CHECK:               %a = loop.load %x[%vi - 1] else 0.000000e+00 : memref<64xf32>
// CHECK:               %b = arith.addf %a, %a : f32
// CHECK:               %0 = loop.index [%vi - 1]
// CHECK:               %1 = arith.constant 64 : index
// CHECK:               %2 = arith.cmpi ult, %0, %1 : index
// CHECK:               %3 = arith.constant 7.000000e+00 : f32
// CHECK:               %r = arith.select %2, %b, %3 : f32
// CHECK:               loop.store %r, %y[%vi] : memref<66xf32>
// CHECK:             }
// CHECK:           }
// CHECK:         }
loop.func @f(%x: memref<64xf32>, %y: memref<66xf32>) {
  %t = loop.alloc global : memref<64xf32>
  loop.for %i = 0 to 64 {
    loop.block "double" (%vi: spatial 64 = %i) {
      %a = loop.load %x[%vi] : memref<64xf32>
      %b = arith.addf %a, %a : f32
      loop.store %b, %t[%vi] : memref<64xf32>
    }
  }
  loop.for %i = 0 to 66 {
    loop.block "use" (%vi: spatial 66 = %i) {
      %r = loop.load %t[%vi - 1] else 7.0 : memref<64xf32>
      loop.store %r, %y[%vi] : memref<66xf32>
    }
  }
}
sched.sequence @s for @f {
  %double = sched.get_block "double"
  sched.compute_inline %double
}

// -----

// A reduction cannot be inlined.
// CHECK:       illegal-schedule: 'sched.compute_inline': compute_inline: argument 'block': block "mm" is a reduction
loop.func @f(%x: memref<8x32xf32>, %w: memref<32x64xf32>, %y: memref<8x64xf32>) {
  %mm = loop.alloc global : memref<8x64xf32>
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 64 {
      loop.for %k = 0 to 32 {
        loop.block "mm" (%vi: spatial 8 = %i, %vj: spatial 64 = %j, %vk: reduce 32 = %k) {
          loop.init {
            %zero = arith.constant 0.0 : f32
            loop.store %zero, %mm[%vi, %vj] : memref<8x64xf32>
          }
          %a = loop.load %x[%vi, %vk] : memref<8x32xf32>
          %b = loop.load %w[%vk, %vj] : memref<32x64xf32>
          %c = arith.mulf %a, %b : f32
          %d = loop.load %mm[%vi, %vj] : memref<8x64xf32>
          %e = arith.addf %d, %c : f32
          loop.store %e, %mm[%vi, %vj] : memref<8x64xf32>
        }
      }
    }
  }
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 64 {
      loop.block "relu" (%vi: spatial 8 = %i, %vj: spatial 64 = %j) {
        %a = loop.load %mm[%vi, %vj] : memref<8x64xf32>
        %zero = arith.constant 0.0 : f32
        %b = arith.maximumf %a, %zero : f32
        loop.store %b, %y[%vi, %vj] : memref<8x64xf32>
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  sched.compute_inline %mm
}

// -----

// An output cannot be inlined.
// CHECK:       illegal-schedule: 'sched.compute_inline': compute_inline: argument 'block': %y is an argument of the function and must be written
loop.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {
  %t = loop.alloc global : memref<64xf32>
  loop.for %i = 0 to 64 {
    loop.block "double" (%vi: spatial 64 = %i) {
      %a = loop.load %x[%vi] : memref<64xf32>
      %b = arith.addf %a, %a : f32
      loop.store %b, %t[%vi] : memref<64xf32>
    }
  }
  loop.for %i = 0 to 64 {
    loop.block "use" (%vi: spatial 64 = %i) {
      %r = loop.load %t[-1 * %vi + 63] : memref<64xf32>
      loop.store %r, %y[%vi] : memref<64xf32>
    }
  }
}
sched.sequence @s for @f {
  %use = sched.get_block "use"
  sched.compute_inline %use
}

// -----

// The consumer replaces the producer's store.
// CHECK:         loop.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {
// CHECK:           loop.for %i = 0 to 64 {
// CHECK:             loop.block "double" (%vi: spatial 64 = %i) {
// CHECK:               %a = loop.load %x[%vi] : memref<64xf32>
// CHECK:               %b = arith.addf %a, %a : f32
// CHECK:               %one = arith.constant 1.000000e+00 : f32
// CHECK:               %r = arith.maximumf %b, %one : f32
// CHECK:               loop.store %r, %y[%vi] : memref<64xf32>
// CHECK:             }
// CHECK:           }
// CHECK:         }
loop.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {
  %t = loop.alloc global : memref<64xf32>
  loop.for %i = 0 to 64 {
    loop.block "double" (%vi: spatial 64 = %i) {
      %a = loop.load %x[%vi] : memref<64xf32>
      %b = arith.addf %a, %a : f32
      loop.store %b, %t[%vi] : memref<64xf32>
    }
  }
  loop.for %i = 0 to 64 {
    loop.block "use" (%vi: spatial 64 = %i) {
      %p = loop.load %t[%vi] : memref<64xf32>
      %one = arith.constant 1.0 : f32
      %r = arith.maximumf %p, %one : f32
      loop.store %r, %y[%vi] : memref<64xf32>
    }
  }
}
sched.sequence @s for @f {
  %use = sched.get_block "use"
  sched.reverse_compute_inline %use
}

// -----

// Reverse inlining needs a consumer that reads each element at the index of its store.
// CHECK:       illegal-schedule: 'sched.reverse_compute_inline': reverse_compute_inline: argument 'block': there is no input that one block without a reduction writes for it alone, and that it reads at its own variables
loop.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {
  %t = loop.alloc global : memref<64xf32>
  loop.for %i = 0 to 64 {
    loop.block "double" (%vi: spatial 64 = %i) {
      %a = loop.load %x[%vi] : memref<64xf32>
      %b = arith.addf %a, %a : f32
      loop.store %b, %t[%vi] : memref<64xf32>
    }
  }
  loop.for %i = 0 to 64 {
    loop.block "use" (%vi: spatial 64 = %i) {
      %r = loop.load %t[-1 * %vi + 63] : memref<64xf32>
      loop.store %r, %y[%vi] : memref<64xf32>
    }
  }
}
sched.sequence @s for @f {
  %use = sched.get_block "use"
  sched.reverse_compute_inline %use
}
