// RUN: tcopt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// A sequence contains only schedule steps.
// CHECK: 'arith.constant' is not a step of a schedule
sched.sequence @s for @f {
  %0 = arith.constant 1 : index
}

// -----

// A knob's value must be one of its candidates.
// CHECK: the value 24 is not one of the candidates [16, 32]
sched.sequence @s for @f {
  %t = sched.knob "t" of [16, 32] = 24
}

// -----

// Knob names must be unique.
// CHECK: two knobs are named "t"
sched.sequence @s for @f {
  %t = sched.knob "t" of [16, 32] = 16
  %u = sched.knob "t" of [1, 2] = 1
}

// -----

// At most one factor may be inferred.
// CHECK: at most one factor may be inferred
sched.sequence @s for @f {
  %b = sched.get_block "b"
  %i = sched.get_loops %b
  %io, %ii = sched.split %i by [?, ?]
}

// -----

// A factor must be at least 1.
// CHECK: a factor is below 1
sched.sequence @s for @f {
  %b = sched.get_block "b"
  %i = sched.get_loops %b
  %io, %ii = sched.split %i by [?, 0]
}

// -----

// A reorder needs at least two loops.
// CHECK: reorder takes two or more different loops
sched.sequence @s for @f {
  %b = sched.get_block "b"
  %i = sched.get_loops %b
  sched.reorder %i, %i
}

// -----

// Loop and block handles are not interchangeable.
// CHECK: !sched.block
sched.sequence @s for @f {
  %b = sched.get_block "b"
  sched.vectorize %b
}

// -----

// A graph operator is identified by a hash.
// CHECK: the hash of an operator must not be empty
sched.operator "" {choice = {winograd = 4 : i64}}
