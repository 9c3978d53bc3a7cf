// RUN: tcopt %s -p apply-schedule --split-input-file --verify-diagnostics | filecheck %s

// Iterations of a running sum carry a dependence.
// CHECK:       illegal-schedule: 'sched.parallel': parallel: argument 'loop': the load %y[%v] of block "sum" and the store %y[%v + 1] of block "sum" may access the same element in two iterations of %i (at {{.*}}dependences.mlir:19:3); the loop.for is at {{.*}}dependences.mlir:6:3
loop.func @sum(%x: memref<16xf32>, %y: memref<17xf32>) {
  loop.for %i = 0 to 16 {
    loop.block "sum" (%v: spatial 16 = %i) {
      %0 = loop.load %y[%v] : memref<17xf32>
      %1 = loop.load %x[%v] : memref<16xf32>
      %2 = arith.addf %0, %1 : f32
      loop.store %2, %y[%v + 1] : memref<17xf32>
    }
  }
}
sched.sequence @s for @sum {
  %b = sched.get_block "sum"
  %i = sched.get_loops %b

  sched.parallel %i
}

// -----

// Iterations of a running sum cannot be vectorised either.
// CHECK:       illegal-schedule: 'sched.vectorize': vectorize: argument 'loop': the load %y[%v] of block "sum" and the store %y[%v + 1] of block "sum" may access the same element in two iterations of %i
loop.func @sum(%x: memref<16xf32>, %y: memref<17xf32>) {
  loop.for %i = 0 to 16 {
    loop.block "sum" (%v: spatial 16 = %i) {
      %0 = loop.load %y[%v] : memref<17xf32>
      %1 = loop.load %x[%v] : memref<16xf32>
      %2 = arith.addf %0, %1 : f32
      loop.store %2, %y[%v + 1] : memref<17xf32>
    }
  }
}
sched.sequence @s for @sum {
  %b = sched.get_block "sum"
  %i = sched.get_loops %b
  sched.vectorize %i
}

// -----

// Shifting elements up in place: each lane would read what the previous lane wrote.
// CHECK:       illegal-schedule: 'sched.vectorize': vectorize: argument 'loop': the load %x[%v] of block "up" and the store %x[%v + 1] of block "up" may access the same element in two iterations of %i
loop.func @up(%x: memref<17xf32>) {
  loop.for %i = 0 to 16 {
    loop.block "up" (%v: spatial 16 = %i) {
      %0 = loop.load %x[%v] : memref<17xf32>
      loop.store %0, %x[%v + 1] : memref<17xf32>
    }
  }
}
sched.sequence @s for @up {
  %b = sched.get_block "up"
  %i = sched.get_loops %b
  sched.vectorize %i
}

// -----

// Two iterations write one element and the last one wins: the loop can be neither parallel nor
// vectorised.
// CHECK:       illegal-schedule: 'sched.parallel': parallel: argument 'loop': the store %y[%v floordiv 2] of block "halve" may access the same element in two iterations of %i
loop.func @halve(%x: memref<16xf32>, %y: memref<8xf32>) {
  loop.for %i = 0 to 16 {
    loop.block "halve" (%v: spatial 16 = %i) {
      %0 = loop.load %x[%v] : memref<16xf32>
      loop.store %0, %y[%v floordiv 2] : memref<8xf32>
    }
  }
}
sched.sequence @s for @halve {
  %b = sched.get_block "halve"
  %i = sched.get_loops %b
  sched.parallel %i
}

// -----

// CHECK:       illegal-schedule: 'sched.vectorize': vectorize: argument 'loop': the store %y[%v floordiv 2] of block "halve" may access the same element in two iterations of %i
loop.func @halve(%x: memref<16xf32>, %y: memref<8xf32>) {
  loop.for %i = 0 to 16 {
    loop.block "halve" (%v: spatial 16 = %i) {
      %0 = loop.load %x[%v] : memref<16xf32>
      loop.store %0, %y[%v floordiv 2] : memref<8xf32>
    }
  }
}
sched.sequence @s for @halve {
  %b = sched.get_block "halve"
  %i = sched.get_loops %b
  sched.vectorize %i
}

// -----

// If the loop over pairs moves inside, the two writes to an element keep their order.
// CHECK-LABEL: loop.func @halve
// CHECK-NEXT:    loop.for %ii = 0 to 2 {
// CHECK-NEXT:      loop.for %io = 0 to 8 parallel {
loop.func @halve(%x: memref<16xf32>, %y: memref<8xf32>) {
  loop.for %i = 0 to 16 {
    loop.block "halve" (%v: spatial 16 = %i) {
      %0 = loop.load %x[%v] : memref<16xf32>
      loop.store %0, %y[%v floordiv 2] : memref<8xf32>
    }
  }
}
sched.sequence @s for @halve {
  %b = sched.get_block "halve"
  %i = sched.get_loops %b
  %io, %ii = sched.split %i by [?, 2]
  sched.reorder %ii, %io
  sched.parallel %io
}

// -----

// An element depends on the one in the previous row and next column, so the loops cannot be
// interchanged.
// CHECK:       illegal-schedule: 'sched.reorder': reorder: argument 'loops': the store %x[%v + 1, %w] of block "skew" and the load %x[%v, %w + 1] of block "skew", which may access the same element, would be exchanged: %j would determine their order instead of %i
loop.func @skew(%x: memref<9x9xf32>) {
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 8 {
      loop.block "skew" (%v: spatial 8 = %i, %w: spatial 8 = %j) {
        %0 = loop.load %x[%v, %w + 1] : memref<9x9xf32>
        %1 = arith.addf %0, %0 : f32
        loop.store %1, %x[%v + 1, %w] : memref<9x9xf32>
      }
    }
  }
}
sched.sequence @s for @skew {
  %b = sched.get_block "skew"
  %i, %j = sched.get_loops %b
  sched.reorder %j, %i
}

// -----

// If it depends on the previous column the loops can be interchanged, and the columns of a row are
// independent.
// CHECK-LABEL: loop.func @lean
// CHECK-NEXT:    loop.for %j = 0 to 8 {
// CHECK-NEXT:      loop.for %i = 0 to 8 {
loop.func @lean(%x: memref<9x9xf32>) {
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 8 {
      loop.block "lean" (%v: spatial 8 = %i, %w: spatial 8 = %j) {
        %0 = loop.load %x[%v, %w] : memref<9x9xf32>
        %1 = arith.addf %0, %0 : f32
        loop.store %1, %x[%v + 1, %w + 1] : memref<9x9xf32>
      }
    }
  }
}
sched.sequence @s for @lean {
  %b = sched.get_block "lean"
  %i, %j = sched.get_loops %b
  sched.reorder %j, %i
}

// -----

// A value that is halved before each addition depends on the order of the terms.
// CHECK:       illegal-schedule: 'sched.reorder': reorder: argument 'loops': two runs of the store %y[%s] of block "fade", which may access the same element, would be exchanged: %j would determine their order instead of %i
loop.func @fade(%x: memref<4x4xf32>, %y: memref<1xf32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 4 {
      loop.block "fade" (%s: spatial 1 = 0, %v: reduce 4 = %i, %w: reduce 4 = %j) {
        loop.init {
          %z = arith.constant 0.0 : f32
          loop.store %z, %y[%s] : memref<1xf32>
        }
        %0 = loop.load %y[%s] : memref<1xf32>
        %1 = loop.load %x[%v, %w] : memref<4x4xf32>
        %h = arith.constant 0.5 : f32
        %2 = arith.mulf %0, %h : f32
        %3 = arith.addf %2, %1 : f32
        loop.store %3, %y[%s] : memref<1xf32>
      }
    }
  }
}
sched.sequence @s for @fade {
  %b = sched.get_block "fade"
  %i, %j = sched.get_loops %b
  sched.reorder %j, %i
}

// -----

// CHECK:       illegal-schedule: 'sched.rfactor': rfactor: argument 'block': it writes %y, whose elements may depend on the order of steps: the updates of block "fade" do not commute
loop.func @fade(%x: memref<4xf32>, %y: memref<1xf32>) {
  loop.for %i = 0 to 4 {
    loop.block "fade" (%s: spatial 1 = 0, %v: reduce 4 = %i) {
      loop.init {
        %z = arith.constant 0.0 : f32
        loop.store %z, %y[%s] : memref<1xf32>
      }
      %0 = loop.load %y[%s] : memref<1xf32>
      %1 = loop.load %x[%v] : memref<4xf32>
      %2 = arith.addf %0, %0 : f32
      %3 = arith.addf %2, %1 : f32
      loop.store %3, %y[%s] : memref<1xf32>
    }
  }
}
sched.sequence @s for @fade {
  %b = sched.get_block "fade"
  %i = sched.get_loops %b
  %r = sched.rfactor %i
}

// -----

// A consumer overwrites the producer's input, so the producer cannot be computed later.
// CHECK:       illegal-schedule: 'sched.compute_inline': compute_inline: argument 'block': the load %x[%v] of block "p" would be moved past the store %x[%v] of block "c", and both may access the same element
loop.func @flip(%x: memref<16xf32>, %y: memref<16xf32>) {
  %t = loop.alloc global : memref<16xf32>
  loop.for %i = 0 to 16 {
    loop.block "p" (%v: spatial 16 = %i) {
      %0 = loop.load %x[%v] : memref<16xf32>
      %1 = arith.addf %0, %0 : f32
      loop.store %1, %t[%v] : memref<16xf32>
    }
  }
  loop.for %i = 0 to 16 {
    loop.block "c" (%v: spatial 16 = %i) {
      %0 = loop.load %t[15 - %v] : memref<16xf32>
      loop.store %0, %x[%v] : memref<16xf32>
      loop.store %0, %y[%v] : memref<16xf32>
    }
  }
}
sched.sequence @s for @flip {
  %b = sched.get_block "p"
  sched.compute_inline %b
}

// -----

// CHECK:       illegal-schedule: 'sched.compute_at': compute_at: argument 'loop': its input %x is written by "c", which does not precede the consumer
loop.func @flip(%x: memref<16xf32>, %y: memref<16xf32>) {
  %t = loop.alloc global : memref<16xf32>
  loop.for %i = 0 to 16 {
    loop.block "p" (%v: spatial 16 = %i) {
      %0 = loop.load %x[%v] : memref<16xf32>
      loop.store %0, %t[%v] : memref<16xf32>
    }
  }
  loop.for %i = 0 to 16 {
    loop.block "c" (%v: spatial 16 = %i) {
      %0 = loop.load %t[15 - %v] : memref<16xf32>
      loop.store %0, %x[%v] : memref<16xf32>
    }
  }
}
sched.sequence @s for @flip {
  %b = sched.get_block "p"
  %c = sched.get_block "c"
  %l = sched.get_loops %c
  sched.compute_at %b at %l
}

// -----

// The consumer cannot move to where its producer has not yet finished reading either.
// CHECK:       illegal-schedule: 'sched.reverse_compute_at': reverse_compute_at: argument 'block': it writes %x, whose elements may depend on the order of steps: block "p" reads %x before, or between, its writes
loop.func @next(%x: memref<17xf32>) {
  %t = loop.alloc global : memref<16xf32>
  loop.for %i = 0 to 16 {
    loop.block "p" (%v: spatial 16 = %i) {
      %0 = loop.load %x[%v] : memref<17xf32>
      loop.store %0, %t[%v] : memref<16xf32>
    }
  }
  loop.for %i = 0 to 16 {
    loop.block "c" (%v: spatial 16 = %i) {
      %0 = loop.load %t[%v] : memref<16xf32>
      loop.store %0, %x[%v + 1] : memref<17xf32>
    }
  }
}
sched.sequence @s for @next {
  %b = sched.get_block "p"
  %c = sched.get_block "c"
  %l = sched.get_loops %b
  sched.reverse_compute_at %c at %l
}

// -----

// All iterations write a row before they read it: to run in parallel, each needs its own row.
// CHECK:       illegal-schedule: 'sched.bind': bind: argument 'loop': the store %t[%w] of block "w" may access the same element in two iterations of %i
loop.func @row(%x: memref<8x8xf32>, %y: memref<8xf32>) {
  %t = loop.alloc global : memref<8xf32>
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 8 {
      loop.block "w" (%v: spatial 8 = %i, %w: spatial 8 = %j) {
        %0 = loop.load %x[%v, %w] : memref<8x8xf32>
        loop.store %0, %t[%w] : memref<8xf32>
      }
    }
    loop.for %j = 0 to 8 {
      loop.block "r" (%v: spatial 8 = %i, %w: spatial 8 = %j) {
        %0 = loop.load %t[%w] : memref<8xf32>
        %2 = loop.load %y[%v] : memref<8xf32>
        %3 = arith.addf %0, %2 : f32
        loop.store %3, %y[%v] : memref<8xf32>
      }
    }
  }
}
sched.sequence @s for @row {
  %b = sched.get_block "w"
  %i, %j = sched.get_loops %b
  sched.bind %i to blockIdx.x
}

// -----

// An index from data may have any value.
// CHECK:       illegal-schedule: 'sched.parallel': parallel: argument 'loop': the store %y[%p] of block "scatter" may access the same element in two iterations of %i
loop.func @scatter(%x: memref<8xf32>, %at: memref<8xindex>, %y: memref<8xf32>) {
  loop.for %i = 0 to 8 {
    loop.block "scatter" (%v: spatial 8 = %i) {
      %0 = loop.load %x[%v] : memref<8xf32>
      %any = loop.load %at[%v] : memref<8xindex>
      %seven = arith.constant 7 : index
      %p = arith.minui %any, %seven : index
      loop.store %0, %y[%p] : memref<8xf32>
    }
  }
}
sched.sequence @s for @scatter {
  %b = sched.get_block "scatter"
  %i = sched.get_loops %b
  sched.parallel %i
}

// -----

// Code outside blocks is analysed too, and its loop is not changed.
// CHECK:       illegal-schedule: 'sched.parallel': parallel: argument 'loop': the load %y[%v] of block "b" and the store %y[%i + 1] may access the same element in two iterations of %i
loop.func @loose(%x: memref<8xf32>, %y: memref<9xf32>, %z: memref<8xf32>) {
  loop.for %i = 0 to 8 {
    loop.block "b" (%v: spatial 8 = %i) {
      %0 = loop.load %y[%v] : memref<9xf32>
      loop.store %0, %z[%v] : memref<8xf32>
    }
    %1 = loop.load %x[%i] : memref<8xf32>
    loop.store %1, %y[%i + 1] : memref<9xf32>
  }
}
sched.sequence @s for @loose {
  %b = sched.get_block "b"
  %i = sched.get_loops %b
  sched.parallel %i
}

// -----

// CHECK:       illegal-schedule: 'sched.split': split: argument 'loop': code outside of blocks uses %i
loop.func @loose(%x: memref<8xf32>, %z: memref<8xf32>) {
  loop.for %i = 0 to 8 {
    %1 = loop.load %x[%i] : memref<8xf32>
    loop.store %1, %z[%i] : memref<8xf32>
    loop.block "b" (%v: spatial 8 = %i) {
      %0 = loop.load %x[%v] : memref<8xf32>
      loop.store %0, %z[%v] : memref<8xf32>
    }
  }
}
sched.sequence @s for @loose {
  %b = sched.get_block "b"
  %i = sched.get_loops %b
  %io, %ii = sched.split %i by [?, 4]
}

// -----

// A cached copy filled before a loop does not see the loop's writes.
// CHECK:       illegal-schedule: 'sched.cache_read': cache_read: argument 'buffer': the load %t[%v] of block "r" would be moved past the store %t[%v] of block "w", and both may access the same element
loop.func @late(%x: memref<8xf32>, %t: memref<8xf32>, %y: memref<8xf32>) {
  loop.for %i = 0 to 8 {
    loop.block "r" (%v: spatial 8 = 7 - %i) {
      %0 = loop.load %t[%v] : memref<8xf32>
      loop.store %0, %y[%v] : memref<8xf32>
    }
    loop.block "w" (%v: spatial 8 = %i) {
      %0 = loop.load %x[%v] : memref<8xf32>
      loop.store %0, %t[%v] : memref<8xf32>
    }
  }
}
sched.sequence @s for @late {
  %b = sched.get_block "r"
  %c = sched.cache_read %b of 0 into shared
}
