// RUN: tcopt %s -p lower-blocks --split-input-file | filecheck %s

// A domain that the ranges do not prove becomes a guard outside the loops that it does not depend
// on; the init runs where the reduce variable is 0.
// CHECK-LABEL: loop.func @sum
// CHECK:       loop.for %i = 0 to 13 {
// CHECK-NEXT:    loop.for %j = 0 to 8 {
// CHECK-NEXT:      loop.guard ([%i * 8 + %j] in 100) {
// CHECK-NEXT:        loop.for %k = 0 to 64 {
// CHECK-NEXT:          loop.guard ([%k] in 1) {
// CHECK-NEXT:            %zero = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:            loop.store %zero, %y[%i * 8 + %j] : memref<100xf32>
// CHECK-NEXT:          }
// CHECK:               %{{.*}} = loop.load %x[%i * 8 + %j, %k] : memref<100x64xf32>
loop.func @sum(%x: memref<100x64xf32>, %y: memref<100xf32>) {
  loop.for %i = 0 to 13 {
    loop.for %j = 0 to 8 {
      loop.for %k = 0 to 64 {
        loop.block "sum" (%v: spatial 100 = %i * 8 + %j, %r: reduce 64 = %k) {
          loop.init {
            %zero = arith.constant 0.0 : f32
            loop.store %zero, %y[%v] : memref<100xf32>
          }
          %a = loop.load %y[%v] : memref<100xf32>
          %b = loop.load %x[%v, %r] : memref<100x64xf32>
          %c = arith.addf %a, %b : f32
          loop.store %c, %y[%v] : memref<100xf32>
        }
      }
    }
  }
}

// -----

// Divisions and unreachable defaults disappear if the ranges allow it.
// CHECK-LABEL: loop.func @fused
// CHECK:       loop.for %i = 0 to 4 {
// CHECK-NEXT:    loop.for %j = 0 to 16 {
// CHECK-NEXT:      %a = loop.load %x[%i, %j] : memref<4x16xf32>
// CHECK-NEXT:      loop.store %a, %y[%i, %j] : memref<4x16xf32>
loop.func @fused(%x: memref<4x16xf32>, %y: memref<4x16xf32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 16 {
      loop.block "copy" (%vi: spatial 4 = (%i * 16 + %j) floordiv 16, %vj: spatial 16 = (%i * 16 + %j) mod 16) {
        %a = loop.load %x[%vi, %vj] else 0.0 : memref<4x16xf32>
        loop.store %a, %y[%vi, %vj] : memref<4x16xf32>
      }
    }
  }
}

// -----

// The last iteration, whose tile exceeds the domain, is peeled; the others need no guard.
// CHECK-LABEL: loop.func @tail
// CHECK:       loop.for %i = 0 to 7 {
// CHECK-NEXT:    loop.for %j = 0 to 14 unrolled {
// CHECK-NEXT:      %a = loop.load %x[%i * 14 + %j] : memref<100xf32>
// CHECK:       loop.for %i = 0 to 1 {
// CHECK-NEXT:    loop.for %j = 0 to 14 unrolled {
// CHECK-NEXT:      loop.guard ([%j + 98] in 100) {
// CHECK-NEXT:        %{{.*}} = loop.load %x[%j + 98] : memref<100xf32>
loop.func @tail(%x: memref<100xf32>, %y: memref<100xf32>) {
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 14 unrolled {
      loop.block "copy" (%v: spatial 100 = %i * 14 + %j) {
        %a = loop.load %x[%v] : memref<100xf32>
        loop.store %a, %y[%v] : memref<100xf32>
      }
    }
  }
}

// -----

// A parallel loop is not split: its body is duplicated under guards.
// CHECK-LABEL: loop.func @parallel_tail
// CHECK:       loop.for %i = 0 to 7 parallel {
// CHECK-NEXT:    loop.guard ([%i] in 6) {
// CHECK-NEXT:      loop.for %j = 0 to 16 vectorized {
// CHECK-NEXT:        %a = loop.load %x[%i * 16 + %j] : memref<100xf32>
// CHECK:         loop.guard ([%i - 6] in 1) {
// CHECK-NEXT:      loop.for %j = 0 to 16 vectorized {
// CHECK-NEXT:        loop.guard ([%j + 96] in 100) {
loop.func @parallel_tail(%x: memref<100xf32>, %y: memref<100xf32>) {
  loop.for %i = 0 to 7 parallel {
    loop.for %j = 0 to 16 vectorized {
      loop.block "copy" (%v: spatial 100 = %i * 16 + %j) {
        %a = loop.load %x[%v] : memref<100xf32>
        loop.store %a, %y[%v] : memref<100xf32>
      }
    }
  }
}

// -----

// In a fused parallel loop, whole iterations of the outer loop are peeled.
// CHECK-LABEL: loop.func @fused_tail
// CHECK:       loop.for %ij = 0 to 14 parallel {
// CHECK-NEXT:    loop.guard ([%ij] in 12) {
// CHECK-NEXT:      loop.for %k = 0 to 16 vectorized {
// CHECK-NEXT:        loop.load %x[%ij mod 2, %k + %ij floordiv 2 * 16] : memref<2x100xf32>
// CHECK:         loop.guard ([%ij - 12] in 2) {
// CHECK-NEXT:      loop.for %k = 0 to 16 vectorized {
// CHECK-NEXT:        loop.guard ([%k + 96] in 100) {
loop.func @fused_tail(%x: memref<2x100xf32>, %y: memref<2x100xf32>) {
  loop.for %ij = 0 to 14 parallel {
    loop.for %k = 0 to 16 vectorized {
      loop.block "copy" (%u: spatial 2 = %ij mod 2, %v: spatial 100 = (%ij floordiv 2) * 16 + %k) {
        %a = loop.load %x[%u, %v] : memref<2x100xf32>
        loop.store %a, %y[%u, %v] : memref<2x100xf32>
      }
    }
  }
}

// -----

// If the partial tile belongs to an inner loop of a fusion, the guard tests that loop's digit of
// the fused variable; for its last value, expressions of the digit become constants.
// CHECK-LABEL: loop.func @inner_tail
// CHECK:       loop.for %ijk = 0 to 42 parallel {
// CHECK-NEXT:    loop.guard ([%ijk floordiv 3 mod 7] in 6) {
// CHECK-NEXT:      loop.for %l = 0 to 16 vectorized {
// CHECK-NEXT:        loop.load %x[%ijk floordiv 21, %l + %ijk floordiv 3 mod 7 * 16, %ijk mod 3]
// CHECK:         loop.guard ([%ijk floordiv 3 mod 7 - 6] in 1) {
// CHECK-NEXT:      loop.for %l = 0 to 16 vectorized {
// CHECK-NEXT:        loop.guard ([%l + 96] in 100) {
// CHECK-NEXT:          loop.load %x[%ijk floordiv 21, %l + 96, %ijk mod 3]
loop.func @inner_tail(%x: memref<2x100x3xf32>, %y: memref<2x100x3xf32>) {
  loop.for %ijk = 0 to 42 parallel {
    loop.for %l = 0 to 16 vectorized {
      loop.block "copy" (%u: spatial 2 = %ijk floordiv 21, %v: spatial 100 = ((%ijk floordiv 3) mod 7) * 16 + %l, %w: spatial 3 = %ijk mod 3) {
        %a = loop.load %x[%u, %v, %w] : memref<2x100x3xf32>
        loop.store %a, %y[%u, %v, %w] : memref<2x100x3xf32>
      }
    }
  }
}

// -----

// Two loops of a fusion have partial tiles: four bodies, one of them without guards.
// CHECK-LABEL: loop.func @two_tails
// CHECK:         loop.guard ([%ij] in 6) {
// CHECK-NEXT:      loop.guard ([%ij mod 3] in 2) {
// CHECK-NEXT:        loop.for %k = 0 to 4 unrolled {
// CHECK-NEXT:          loop.for %l = 0 to 8 vectorized {
// CHECK-NEXT:            loop.load %x[%k + %ij floordiv 3 * 4, %l + %ij mod 3 * 8]
// CHECK:           loop.guard ([%ij mod 3 - 2] in 1) {
// CHECK:                 loop.guard ([%l + 16] in 20) {
// CHECK:         loop.guard ([%ij - 6] in 3) {
// CHECK-NEXT:      loop.guard ([%ij - 6] in 2) {
// CHECK:               loop.guard ([%k + 8] in 10) {
// CHECK:           loop.guard ([%ij - 8] in 1) {
loop.func @two_tails(%x: memref<10x20xf32>, %y: memref<10x20xf32>) {
  loop.for %ij = 0 to 9 parallel {
    loop.for %k = 0 to 4 unrolled {
      loop.for %l = 0 to 8 vectorized {
        loop.block "copy" (%u: spatial 10 = (%ij floordiv 3) * 4 + %k, %v: spatial 20 = (%ij mod 3) * 8 + %l) {
          %a = loop.load %x[%u, %v] : memref<10x20xf32>
          loop.store %a, %y[%u, %v] : memref<10x20xf32>
        }
      }
    }
  }
}

// -----

// Only one lane of the tail is in bounds; its accesses are still indexed by the lane.
// CHECK-LABEL: loop.func @one_lane
// CHECK:       loop.guard ([%j + 16] in 17) {
// CHECK-NEXT:    %a = loop.load %x[%j + 16] : memref<17xf32>
loop.func @one_lane(%x: memref<17xf32>, %y: memref<17xf32>) {
  loop.for %i = 0 to 3 {
    loop.for %j = 0 to 8 vectorized {
      loop.block "copy" (%v: spatial 17 = %i * 8 + %j) {
        %a = loop.load %x[%v] : memref<17xf32>
        loop.store %a, %y[%v] : memref<17xf32>
      }
    }
  }
}

// -----

// A block with an empty domain is removed.
// CHECK-LABEL: loop.func @never
// CHECK-NOT:   loop.store
loop.func @never(%y: memref<8xf32>) {
  loop.for %i = 0 to 8 {
    loop.block "never" (%v: spatial 8 = %i + 8) {
      %a = arith.constant 0.0 : f32
      loop.store %a, %y[%v] : memref<8xf32>
    }
  }
}

// -----

// An iteration variable that is used as a value becomes a loop.index.
// CHECK-LABEL: loop.func @iota
// CHECK:       [[I:%.*]] = loop.index [%i * 2 + 1]
// CHECK-NEXT:  %{{.*}} = arith.index_cast [[I]] : index to i32
loop.func @iota(%y: memref<9xi32>) {
  loop.for %i = 0 to 4 {
    loop.block "iota" (%v: spatial 9 = %i * 2 + 1) {
      %a = arith.index_cast %v : index to i32
      loop.store %a, %y[%v] : memref<9xi32>
    }
  }
}

// -----

// Window reads that are out of bounds are skipped if the default is the identity, for a whole row
// at once.
// CHECK-LABEL: loop.func @windows
// CHECK:         loop.for %k = 0 to 3 {
// CHECK-NEXT:      loop.guard ([%i * 2 + %k - 1] in 16) {
// CHECK-NEXT:        loop.for %j = 0 to 8 vectorized {
// CHECK-NEXT:          loop.load %x[%i * 2 + %k - 1, %j] : memref<16x8xf32>
// CHECK-NEXT:          loop.load %y[%i, %j]
// CHECK-NEXT:          arith.maximumf
// CHECK-NEXT:          loop.store
loop.func @windows(%x: memref<16x8xf32>, %y: memref<8x8xf32>) {
  loop.for %i = 0 to 8 {
    loop.for %k = 0 to 3 {
      loop.for %j = 0 to 8 vectorized {
        loop.block "max" (%v: spatial 8 = %i, %w: spatial 8 = %j, %r: reduce 3 = %k) {
          %a = loop.load %x[%v * 2 + %r - 1, %w] else -inf : memref<16x8xf32>
          %b = loop.load %y[%v, %w] : memref<8x8xf32>
          %c = arith.maximumf %b, %a : f32
          loop.store %c, %y[%v, %w] : memref<8x8xf32>
        }
      }
    }
  }
}

// -----

// Terms of a sum with a factor that is 0 out of bounds are skipped.
// CHECK-LABEL: loop.func @products
// CHECK:         loop.for %k = 0 to 3 {
// CHECK-NEXT:      loop.guard ([%i + %k * 4 - 4] in 16) {
// CHECK-NEXT:        loop.for %j = 0 to 8 vectorized {
// CHECK-NEXT:          loop.load %x[%i + %k * 4 - 4] : memref<16xf32>
loop.func @products(%x: memref<16xf32>, %w: memref<3x8xf32>, %y: memref<16x8xf32>) {
  loop.for %i = 0 to 16 {
    loop.for %k = 0 to 3 {
      loop.for %j = 0 to 8 vectorized {
        loop.block "sum" (%v: spatial 16 = %i, %l: spatial 8 = %j, %r: reduce 3 = %k) {
          %a = loop.load %x[%v + %r * 4 - 4] else 0.0 : memref<16xf32>
          %f = loop.load %w[%r, %l] : memref<3x8xf32>
          %p = arith.mulf %a, %f : f32
          %b = loop.load %y[%v, %l] : memref<16x8xf32>
          %c = arith.addf %b, %p : f32
          loop.store %c, %y[%v, %l] : memref<16x8xf32>
        }
      }
    }
  }
}

// -----

// If the last tile of rows is partial, guards of rows are joined with those of their terms, and the
// condition common to all rows is hoisted.
// CHECK-LABEL: loop.func @joined
// CHECK:       loop.for %k = 0 to 3 {
// CHECK-NEXT:    loop.guard ([%i + %k * 4 - 4] in 16) {
// CHECK-NEXT:      loop.for %j = 0 to 4 unrolled {
// CHECK-NEXT:        loop.guard ([%t * 4 + %j] in 10) {
// CHECK-NEXT:          loop.load %x[%i + %k * 4 - 4, %t * 4 + %j]
loop.func @joined(%x: memref<16x10xf32>, %y: memref<16x10xf32>) {
  loop.for %i = 0 to 16 {
    loop.for %t = 0 to 3 unrolled {
      loop.for %k = 0 to 3 {
        loop.for %j = 0 to 4 unrolled {
          loop.block "sum" (%v: spatial 16 = %i, %w: spatial 10 = %t * 4 + %j, %r: reduce 3 = %k) {
            %a = loop.load %x[%v + %r * 4 - 4, %w] else 0.0 : memref<16x10xf32>
            %b = loop.load %y[%v, %w] : memref<16x10xf32>
            %c = arith.addf %b, %a : f32
            loop.store %c, %y[%v, %w] : memref<16x10xf32>
          }
        }
      }
    }
  }
}

// -----

// A default that is not the identity of the combiner is kept.
// CHECK-LABEL: loop.func @counted
// CHECK-NOT:     loop.guard
// CHECK:         else 0.000000e+00 : memref<16xf32>
loop.func @counted(%x: memref<16xf32>, %y: memref<8xf32>) {
  loop.for %i = 0 to 8 {
    loop.for %k = 0 to 3 {
      loop.block "max" (%v: spatial 8 = %i, %r: reduce 3 = %k) {
        %a = loop.load %x[%v * 2 + %r - 1] else 0.0 : memref<16xf32>
        %b = loop.load %y[%v] : memref<8xf32>
        %c = arith.maximumf %b, %a : f32
        loop.store %c, %y[%v] : memref<8xf32>
      }
    }
  }
}

// -----

// All threads of a block fill and use a shared buffer: guards on a thread stay inside the
// surrounding loop, so that barriers are reached by all.
// CHECK-LABEL: loop.func @together
// CHECK:       loop.for %t = 0 to 16 thread threadIdx.x {
// CHECK-NEXT:    loop.for %k = 0 to 4 {
// CHECK-NEXT:      loop.guard ([%b * 16 + %t] in 30) {
// CHECK-NEXT:        {{.*}} = loop.load %x
// CHECK-NEXT:        loop.store
// CHECK-NEXT:      }
// CHECK-NEXT:      loop.guard ([%b * 16 + %t] in 30) {
loop.func @together(%x: memref<30x4xf32>, %y: memref<30xf32>) {
  loop.for %b = 0 to 2 thread blockIdx.x {
    %s = loop.alloc shared : memref<16xf32>
    loop.for %t = 0 to 16 thread threadIdx.x {
      loop.for %k = 0 to 4 {
        loop.block "s" (%vi: spatial 30 = %b * 16 + %t, %vt: spatial 16 = %t, %vk: spatial 4 = %k) {
          %a = loop.load %x[%vi, %vk] : memref<30x4xf32>
          loop.store %a, %s[%vt] : memref<16xf32>
        }
        loop.block "sum" (%vi: spatial 30 = %b * 16 + %t, %vt: spatial 16 = %t, %vk: reduce 4 = %k) {
          %a = loop.load %s[15 - %vt] : memref<16xf32>
          %o = loop.load %y[%vi] : memref<30xf32>
          %n = arith.addf %o, %a : f32
          loop.store %n, %y[%vi] : memref<30xf32>
        }
      }
    }
  }
}

// -----

// On a GPU, values in registers computed from shared memory may be computed out of the domain,
// where the tile exceeds it, but must not be accumulated.
// CHECK-LABEL: loop.func @tile
// CHECK:       loop.for %t = 0 to 8 thread threadIdx.x {
// CHECK:         loop.for %k = 0 to 4 {
// CHECK-NEXT:      loop.guard ([%k] in 3) {
// CHECK-NEXT:        loop.load %s[%t, %k]
// CHECK:         loop.for %p = 0 to 2 {
// CHECK-NEXT:      loop.guard ([%p * 8 + %t] in 13) {
// CHECK-NEXT:        loop.load %s[%t, %p]
// CHECK:         loop.guard ([%t] in 7) {
// CHECK-NEXT:      loop.load %r[0]
loop.func @tile(%y: memref<7xf32>) {
  %s = loop.alloc shared : memref<8x4xf32>
  loop.for %t = 0 to 8 thread threadIdx.x {
    %r = loop.alloc register : memref<1xf32>
    loop.for %k = 0 to 4 {
      loop.block "sum" (%v: spatial 7 = %t, %w: reduce 3 = %k) {
        %a = loop.load %s[%v, %w] : memref<8x4xf32>
        %b = loop.load %r[0] : memref<1xf32>
        %c = arith.addf %a, %b : f32
        loop.store %c, %r[0] : memref<1xf32>
      }
    }
    loop.for %p = 0 to 2 {
      loop.block "share" (%v: spatial 13 = %p * 8 + %t, %w: spatial 8 = %t, %q: spatial 2 = %p) {
        %a = loop.load %s[%w, %q] : memref<8x4xf32>
        %b = loop.load %r[0] : memref<1xf32>
        %c = arith.addf %a, %b : f32
        loop.store %c, %r[0] : memref<1xf32>
      }
    }
    loop.block "out" (%v: spatial 7 = %t) {
      %a = loop.load %r[0] : memref<1xf32>
      loop.store %a, %y[%v] : memref<7xf32>
    }
  }
}

// -----

// If the init is in the same block, it runs even if the first term is out of bounds.
// CHECK-LABEL: loop.func @first_outside
// CHECK:       loop.for %i = 0 to 8 {
// CHECK-NEXT:    loop.for %k = 0 to 3 {
// CHECK-NEXT:      loop.guard ([%k] in 1) {
// CHECK:             loop.store %{{.*}}, %y[%i]
// CHECK-NOT:       loop.guard
// CHECK:           loop.load %x[%i + %k - 1] else 0.000000e+00
loop.func @first_outside(%x: memref<8xf32>, %y: memref<8xf32>) {
  loop.for %i = 0 to 8 {
    loop.for %k = 0 to 3 {
      loop.block "sum" (%v: spatial 8 = %i, %r: reduce 3 = %k) {
        loop.init {
          %zero = arith.constant 0.0 : f32
          loop.store %zero, %y[%v] : memref<8xf32>
        }
        %a = loop.load %x[%v + %r - 1] else 0.0 : memref<8xf32>
        %b = loop.load %y[%v] : memref<8xf32>
        %c = arith.addf %b, %a : f32
        loop.store %c, %y[%v] : memref<8xf32>
      }
    }
  }
}

// -----

// A guard whose only content is another guard merges with it.
// CHECK-LABEL: loop.func @nested
// CHECK:       loop.for %j = 0 to 8 {
// CHECK-NEXT:    loop.guard ([%i + %j] in 9, [%i * 2 + %j] in 12) {
// CHECK-NEXT:      %a = loop.load %x[%i, %j] : memref<8x8xf32>
// CHECK-NEXT:      loop.store %a, %y[%i, %j] : memref<8x8xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
loop.func @nested(%x: memref<8x8xf32>, %y: memref<8x8xf32>) {
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 8 {
      loop.guard ([%i + %j] in 9) {
        loop.guard ([%i * 2 + %j] in 12) {
          %a = loop.load %x[%i, %j] : memref<8x8xf32>
          loop.store %a, %y[%i, %j] : memref<8x8xf32>
        }
      }
    }
  }
}
