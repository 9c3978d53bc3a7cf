// RUN: tcopt %s -p apply-schedule --split-input-file --verify-diagnostics | filecheck %s

// A sequence must name a function of its module.
// CHECK: there is no loop.func @g to schedule
sched.sequence @s for @g {
}

// -----

// get_loops must name as many loops as the block has.
// CHECK: the sequence names 2 loops where there are 1
loop.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    loop.block "copy" (%vi: spatial 4 = %i) {
      %a = loop.load %x[%vi] : memref<4xf32>
      loop.store %a, %y[%vi] : memref<4xf32>
    }
  }
}
sched.sequence @s for @f {
  %b = sched.get_block "copy"
  %i, %j = sched.get_loops %b
}

// -----

// The error for an unknown block lists the existing ones.
// CHECK: there is no block "cpy" (at {{.*}}); there are "copy"
loop.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    loop.block "copy" (%vi: spatial 4 = %i) {
      %a = loop.load %x[%vi] : memref<4xf32>
      loop.store %a, %y[%vi] : memref<4xf32>
    }
  }
}
sched.sequence @s for @f {
  %b = sched.get_block "cpy"
}
