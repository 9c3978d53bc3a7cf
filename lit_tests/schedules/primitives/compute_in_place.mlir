// RUN: tcopt %s -p apply-schedule --split-input-file --verify-diagnostics | filecheck %s

// The result overwrites the input, also for later users of the result.
// CHECK-LABEL: loop.func @f
// CHECK-NEXT:    %s = loop.alloc global : memref<8xi32>
// CHECK-NEXT:    loop.for
// CHECK:         loop.block "second"
// CHECK-NEXT:      %0 = loop.load %s[%vi] : memref<8xi32>
// CHECK-NEXT:      %1 = arith.addi %0, %0 : i32
// CHECK-NEXT:      loop.store %1, %s[%vi] : memref<8xi32>
// CHECK:         loop.block "third"
// CHECK-NEXT:      %0 = loop.load %s[%vi] : memref<8xi32>
loop.func @f(%x: memref<8xi32>, %y: memref<8xi32>) {
  %s = loop.alloc global : memref<8xi32>
  %t = loop.alloc global : memref<8xi32>
  loop.for %i = 0 to 8 {
    loop.block "first" (%vi: spatial 8 = %i) {
      %0 = loop.load %x[%vi] : memref<8xi32>
      %1 = arith.addi %0, %0 : i32
      loop.store %1, %s[%vi] : memref<8xi32>
    }
  }
  loop.for %i = 0 to 8 {
    loop.block "second" (%vi: spatial 8 = %i) {
      %0 = loop.load %s[%vi] : memref<8xi32>
      %1 = arith.addi %0, %0 : i32
      loop.store %1, %t[%vi] : memref<8xi32>
    }
  }
  loop.for %i = 0 to 8 {
    loop.block "third" (%vi: spatial 8 = %i) {
      %0 = loop.load %t[%vi] : memref<8xi32>
      %1 = loop.load %x[%vi] : memref<8xi32>
      %2 = arith.addi %0, %1 : i32
      loop.store %2, %y[%vi] : memref<8xi32>
    }
  }
}
sched.sequence @s for @f {
  %second = sched.get_block "second"
  sched.compute_in_place %second of 0
}

// -----

// An input that is read later is not overwritten.
// CHECK: illegal-schedule: 'sched.compute_in_place': compute_in_place: argument 'block': block "third" uses %s after it
loop.func @f(%x: memref<8xi32>, %y: memref<8xi32>) {
  %s = loop.alloc global : memref<8xi32>
  %t = loop.alloc global : memref<8xi32>
  loop.for %i = 0 to 8 {
    loop.block "first" (%vi: spatial 8 = %i) {
      %0 = loop.load %x[%vi] : memref<8xi32>
      %1 = arith.addi %0, %0 : i32
      loop.store %1, %s[%vi] : memref<8xi32>
    }
  }
  loop.for %i = 0 to 8 {
    loop.block "second" (%vi: spatial 8 = %i) {
      %0 = loop.load %s[%vi] : memref<8xi32>
      %1 = arith.addi %0, %0 : i32
      loop.store %1, %t[%vi] : memref<8xi32>
    }
  }
  loop.for %i = 0 to 8 {
    loop.block "third" (%vi: spatial 8 = %i) {
      %0 = loop.load %t[%vi] : memref<8xi32>
      %1 = loop.load %s[%vi] : memref<8xi32>
      %2 = arith.addi %0, %1 : i32
      loop.store %2, %y[%vi] : memref<8xi32>
    }
  }
}
sched.sequence @s for @f {
  %second = sched.get_block "second"
  sched.compute_in_place %second of 0
}

// -----

// Each element must be read at the index where it is stored.
// CHECK: illegal-schedule: 'sched.compute_in_place': compute_in_place: argument 'block': it reads other elements of %s than it stores
loop.func @f(%x: memref<8xi32>, %y: memref<8xi32>) {
  %s = loop.alloc global : memref<8xi32>
  %t = loop.alloc global : memref<8xi32>
  loop.for %i = 0 to 8 {
    loop.block "first" (%vi: spatial 8 = %i) {
      %0 = loop.load %x[%vi] : memref<8xi32>
      %1 = arith.addi %0, %0 : i32
      loop.store %1, %s[%vi] : memref<8xi32>
    }
  }
  loop.for %i = 0 to 8 {
    loop.block "second" (%vi: spatial 8 = %i) {
      %0 = loop.load %s[7 - %vi] : memref<8xi32>
      %1 = arith.addi %0, %0 : i32
      loop.store %1, %t[%vi] : memref<8xi32>
    }
  }
  loop.for %i = 0 to 8 {
    loop.block "third" (%vi: spatial 8 = %i) {
      %0 = loop.load %t[%vi] : memref<8xi32>
      %1 = loop.load %x[%vi] : memref<8xi32>
      %2 = arith.addi %0, %1 : i32
      loop.store %2, %y[%vi] : memref<8xi32>
    }
  }
}
sched.sequence @s for @f {
  %second = sched.get_block "second"
  sched.compute_in_place %second of 0
}

// -----

// Input and result must be in the same memory.
// CHECK: illegal-schedule: 'sched.compute_in_place': compute_in_place: argument 'block': %t and %s differ in type or memory
loop.func @f(%x: memref<8xi32>, %y: memref<8xi32>) {
  %s = loop.alloc shared : memref<8xi32>
  %t = loop.alloc global : memref<8xi32>
  loop.for %i = 0 to 8 {
    loop.block "first" (%vi: spatial 8 = %i) {
      %0 = loop.load %x[%vi] : memref<8xi32>
      %1 = arith.addi %0, %0 : i32
      loop.store %1, %s[%vi] : memref<8xi32>
    }
  }
  loop.for %i = 0 to 8 {
    loop.block "second" (%vi: spatial 8 = %i) {
      %0 = loop.load %s[%vi] : memref<8xi32>
      %1 = arith.addi %0, %0 : i32
      loop.store %1, %t[%vi] : memref<8xi32>
    }
  }
  loop.for %i = 0 to 8 {
    loop.block "third" (%vi: spatial 8 = %i) {
      %0 = loop.load %t[%vi] : memref<8xi32>
      %1 = loop.load %x[%vi] : memref<8xi32>
      %2 = arith.addi %0, %1 : i32
      loop.store %2, %y[%vi] : memref<8xi32>
    }
  }
}
sched.sequence @s for @f {
  %second = sched.get_block "second"
  sched.compute_in_place %second of 0
}

// -----

// An argument is not overwritten.
// CHECK: illegal-schedule: 'sched.compute_in_place': compute_in_place: argument 'block': %x is an argument of the function
loop.func @f(%x: memref<8xi32>, %y: memref<8xi32>) {
  %s = loop.alloc global : memref<8xi32>
  %t = loop.alloc global : memref<8xi32>
  loop.for %i = 0 to 8 {
    loop.block "first" (%vi: spatial 8 = %i) {
      %0 = loop.load %x[%vi] : memref<8xi32>
      %1 = arith.addi %0, %0 : i32
      loop.store %1, %s[%vi] : memref<8xi32>
    }
  }
  loop.for %i = 0 to 8 {
    loop.block "second" (%vi: spatial 8 = %i) {
      %0 = loop.load %s[%vi] : memref<8xi32>
      %1 = arith.addi %0, %0 : i32
      loop.store %1, %t[%vi] : memref<8xi32>
    }
  }
  loop.for %i = 0 to 8 {
    loop.block "third" (%vi: spatial 8 = %i) {
      %0 = loop.load %t[%vi] : memref<8xi32>
      %1 = loop.load %x[%vi] : memref<8xi32>
      %2 = arith.addi %0, %1 : i32
      loop.store %2, %y[%vi] : memref<8xi32>
    }
  }
}
sched.sequence @s for @f {
  %second = sched.get_block "first"
  sched.compute_in_place %second of 0
}

// -----

// The buffer must exist.
// CHECK: illegal-schedule: 'sched.compute_in_place': compute_in_place: argument 'buffer': it reads 1 buffers, there is no number 1
loop.func @f(%x: memref<8xi32>, %y: memref<8xi32>) {
  %s = loop.alloc global : memref<8xi32>
  %t = loop.alloc global : memref<8xi32>
  loop.for %i = 0 to 8 {
    loop.block "first" (%vi: spatial 8 = %i) {
      %0 = loop.load %x[%vi] : memref<8xi32>
      %1 = arith.addi %0, %0 : i32
      loop.store %1, %s[%vi] : memref<8xi32>
    }
  }
  loop.for %i = 0 to 8 {
    loop.block "second" (%vi: spatial 8 = %i) {
      %0 = loop.load %s[%vi] : memref<8xi32>
      %1 = arith.addi %0, %0 : i32
      loop.store %1, %t[%vi] : memref<8xi32>
    }
  }
  loop.for %i = 0 to 8 {
    loop.block "third" (%vi: spatial 8 = %i) {
      %0 = loop.load %t[%vi] : memref<8xi32>
      %1 = loop.load %x[%vi] : memref<8xi32>
      %2 = arith.addi %0, %1 : i32
      loop.store %2, %y[%vi] : memref<8xi32>
    }
  }
}
sched.sequence @s for @f {
  %second = sched.get_block "second"
  sched.compute_in_place %second of 1
}
