// RUN: tcopt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// A sequence holds steps of a schedule and nothing else.
// CHECK: 'arith.constant' is not a step of a schedule
sched.sequence @s for @f {
  %0 = arith.constant 1 : index
}

// -----

// A knob takes one of its candidates.
// CHECK: the value 24 is not one of the candidates [16, 32]
sched.sequence @s for @f {
  %t = sched.knob "t" of [16, 32] = 24
}

// -----

// Knobs have names of their own.
// CHECK: two knobs are named "t"
sched.sequence @s for @f {
  %t = sched.knob "t" of [16, 32] = 16
  %u = sched.knob "t" of [1, 2] = 1
}

// -----

// At most one factor is open.
// CHECK: at most one factor may be inferred
sched.sequence @s for @f {
  %b = sched.get_block "b"
  %i = sched.get_loops %b
  %io, %ii = sched.split %i by [?, ?]
}

// -----

// A factor is at least 1.
// CHECK: a factor is below 1
sched.sequence @s for @f {
  %b = sched.get_block "b"
  %i = sched.get_loops %b
  %io, %ii = sched.split %i by [?, 0]
}

// -----

// Loops are reordered among others.
// CHECK: reorder takes two or more different loops
sched.sequence @s for @f {
  %b = sched.get_block "b"
  %i = sched.get_loops %b
  sched.reorder %i, %i
}

// -----

// Loops and blocks are not mixed up.
// CHECK: !sched.block
sched.sequence @s for @f {
  %b = sched.get_block "b"
  sched.vectorize %b
}

// -----

// An operator has a hash.
// CHECK: the hash of an operator must not be empty
sched.operator "" {choice = {winograd = 4 : i64}}
