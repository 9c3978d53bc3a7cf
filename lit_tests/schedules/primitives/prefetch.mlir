// RUN: tcopt %s -p apply-schedule --split-input-file --verify-diagnostics | filecheck %s

// The next panel has as many cache lines as a tile has steps: the last tile prefetches them all.
// CHECK:       loop.for %k = 0 to 64 {
// CHECK-NEXT:    loop.guard ([%i * 64 + %k - 192] in 64) {
// CHECK-NEXT:      loop.prefetch %w[%p + 1, 0, %i * 1024 + %k * 16 - 3072] locality 2 : memref<8x64x16xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    loop.for %r = 0 to 6 {
loop.func @f(%x: memref<24x64xf32>, %w: memref<8x64x16xf32>, %y: memref<24x128xf32>) {
  loop.for %p = 0 to 8 {
    loop.for %i = 0 to 4 {
      loop.for %k = 0 to 64 {
        loop.for %r = 0 to 6 {
          loop.for %j = 0 to 16 {
            loop.block "mm" (%vi: spatial 24 = %i * 6 + %r, %vp: spatial 8 = %p, %vj: spatial 16 = %j, %vk: reduce 64 = %k) {
              %a = loop.load %x[%vi, %vk] : memref<24x64xf32>
              %b = loop.load %w[%vp, %vk, %vj] : memref<8x64x16xf32>
              %c = arith.mulf %a, %b : f32
              %d = loop.load %y[%vi, %vp * 16 + %vj] : memref<24x128xf32>
              %e = arith.addf %d, %c : f32
              loop.store %e, %y[%vi, %vp * 16 + %vj] : memref<24x128xf32>
            }
          }
        }
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  %p, %i, %k, %r, %j = sched.get_loops %mm
  sched.prefetch %mm buffer 1 ahead %p at %k
}

// -----

// If there are fewer iterations than cache lines, each prefetches several.
// CHECK:       loop.for %i = 0 to 4 {
// CHECK-NEXT:    loop.prefetch %w[%p + 1, 0, %i * 256] locality 2 : memref<8x64x16xf32>
// CHECK-NEXT:    loop.prefetch %w[%p + 1, 0, %i * 256 + 16] locality 2 : memref<8x64x16xf32>
// CHECK:         loop.prefetch %w[%p + 1, 0, %i * 256 + 240] locality 2 : memref<8x64x16xf32>
// CHECK-NEXT:    loop.for %k
loop.func @f(%x: memref<24x64xf32>, %w: memref<8x64x16xf32>, %y: memref<24x128xf32>) {
  loop.for %p = 0 to 8 {
    loop.for %i = 0 to 4 {
      loop.for %k = 0 to 64 {
        loop.for %r = 0 to 6 {
          loop.for %j = 0 to 16 {
            loop.block "mm" (%vi: spatial 24 = %i * 6 + %r, %vp: spatial 8 = %p, %vj: spatial 16 = %j, %vk: reduce 64 = %k) {
              %a = loop.load %x[%vi, %vk] : memref<24x64xf32>
              %b = loop.load %w[%vp, %vk, %vj] : memref<8x64x16xf32>
              %c = arith.mulf %a, %b : f32
              %d = loop.load %y[%vi, %vp * 16 + %vj] : memref<24x128xf32>
              %e = arith.addf %d, %c : f32
              loop.store %e, %y[%vi, %vp * 16 + %vj] : memref<24x128xf32>
            }
          }
        }
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  %p, %i, %k, %r, %j = sched.get_loops %mm
  sched.prefetch %mm buffer 1 ahead %p at %i
}

// -----

// If a tile reads whole rows, they are one contiguous range.
// CHECK:       loop.guard ([%k - 40] in 24) {
// CHECK-NEXT:    loop.prefetch %x[%i * 6 + 6, %k * 16 - 640] locality 2 : memref<24x64xf32>
loop.func @f(%x: memref<24x64xf32>, %w: memref<8x64x16xf32>, %y: memref<24x128xf32>) {
  loop.for %p = 0 to 8 {
    loop.for %i = 0 to 4 {
      loop.for %k = 0 to 64 {
        loop.for %r = 0 to 6 {
          loop.for %j = 0 to 16 {
            loop.block "mm" (%vi: spatial 24 = %i * 6 + %r, %vp: spatial 8 = %p, %vj: spatial 16 = %j, %vk: reduce 64 = %k) {
              %a = loop.load %x[%vi, %vk] : memref<24x64xf32>
              %b = loop.load %w[%vp, %vk, %vj] : memref<8x64x16xf32>
              %c = arith.mulf %a, %b : f32
              %d = loop.load %y[%vi, %vp * 16 + %vj] : memref<24x128xf32>
              %e = arith.addf %d, %c : f32
              loop.store %e, %y[%vi, %vp * 16 + %vj] : memref<24x128xf32>
            }
          }
        }
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  %p, %i, %k, %r, %j = sched.get_loops %mm
  sched.prefetch %mm buffer 0 ahead %i at %k
}

// -----

// The loops must be around the block, one inside the other.
// CHECK: prefetch: argument 'at': it is not around the block and inside of ahead
loop.func @f(%x: memref<24x64xf32>, %w: memref<8x64x16xf32>, %y: memref<24x128xf32>) {
  loop.for %p = 0 to 8 {
    loop.for %i = 0 to 4 {
      loop.for %k = 0 to 64 {
        loop.for %r = 0 to 6 {
          loop.for %j = 0 to 16 {
            loop.block "mm" (%vi: spatial 24 = %i * 6 + %r, %vp: spatial 8 = %p, %vj: spatial 16 = %j, %vk: reduce 64 = %k) {
              %a = loop.load %x[%vi, %vk] : memref<24x64xf32>
              %b = loop.load %w[%vp, %vk, %vj] : memref<8x64x16xf32>
              %c = arith.mulf %a, %b : f32
              %d = loop.load %y[%vi, %vp * 16 + %vj] : memref<24x128xf32>
              %e = arith.addf %d, %c : f32
              loop.store %e, %y[%vi, %vp * 16 + %vj] : memref<24x128xf32>
            }
          }
        }
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  %p, %i, %k, %r, %j = sched.get_loops %mm
  sched.prefetch %mm buffer 1 ahead %k at %p
}

// -----

// The elements that one iteration reads must be contiguous.
// CHECK: prefetch: argument 'buffer': the parts of %x that are read are not contiguous
loop.func @f(%x: memref<24x64xf32>, %w: memref<8x64x16xf32>, %y: memref<24x128xf32>) {
  loop.for %p = 0 to 8 {
    loop.for %i = 0 to 4 {
      loop.for %k = 0 to 64 {
        loop.for %r = 0 to 6 {
          loop.for %j = 0 to 16 {
            loop.block "mm" (%vi: spatial 24 = %i * 6 + %r, %vp: spatial 8 = %p, %vj: spatial 16 = %j, %vk: reduce 64 = %k) {
              %a = loop.load %x[%vi, %vk] : memref<24x64xf32>
              %b = loop.load %w[%vp, %vk, %vj] : memref<8x64x16xf32>
              %c = arith.mulf %a, %b : f32
              %d = loop.load %y[%vi, %vp * 16 + %vj] : memref<24x128xf32>
              %e = arith.addf %d, %c : f32
              loop.store %e, %y[%vi, %vp * 16 + %vj] : memref<24x128xf32>
            }
          }
        }
      }
    }
  }
}
sched.sequence @s for @f {
  %mm = sched.get_block "mm"
  %p, %i, %k, %r, %j = sched.get_loops %mm
  sched.prefetch %mm buffer 0 ahead %k at %r
}
