builtin.module attributes {tuned.version = 1 : i64} {
  sched.sequence @double for @double attributes {tuned.workload = "00dbb911b3ece5471182f549", tuned.target = "b8e1dda3ac0aa3820ad2990b", rule = "by-hand", tuned.gain = 1.5 : f64} {
    %double = sched.get_block "double"
    %i = sched.get_loops %double
    %io, %ii = sched.split %i by [?, 16]
    sched.vectorize %ii
  }
  sched.operator "a498e0ec3a419b9693dac4ba" {tuned.target = "b8e1dda3ac0aa3820ad2990b", choice = {block = 16 : i64, form = "direct"}}
}
