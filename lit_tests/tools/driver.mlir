// RUN: tcopt %s -p canonicalize,cse | filecheck %s
// RUN: tcopt -p 'canonicalize, cse' --print-op-generic --print-debuginfo -o %t.mlir - < %s && filecheck %s --input-file %t.mlir --check-prefix GENERIC
// RUN: rm -rf %t.dump && tcopt %s --load %S/Inputs/count_ops.py -p 'canonicalize,cse,count-ops{first=10}' --time-passes --print-after cse --diff --dump-ir %t.dump 2>%t.err | filecheck %s --check-prefix LOAD
// RUN: filecheck %s --input-file %t.err --check-prefix WATCH
// RUN: cat %t.dump/00-input.mlir %t.dump/01-canonicalize.mlir %t.dump/02-cse.mlir | filecheck %s --check-prefix DUMP

// A dead op and a repeated one: canonicalize removes the first, cse the second.
func.func @square_sum(%a: i32) -> i32 {
  %dead = arith.muli %a, %a : i32
  %b = arith.addi %a, %a : i32
  %c = arith.addi %a, %a : i32
  %d = arith.muli %b, %c : i32
  func.return %d : i32
}

// CHECK:      func.func @square_sum(%a: i32) -> i32 {
// CHECK-NEXT:   %b = arith.addi %a, %a : i32
// CHECK-NEXT:   %d = arith.muli %b, %b : i32
// CHECK-NEXT:   func.return %d : i32

// Each op has the location of its line.
// GENERIC: "func.func"() <{{.*}}sym_name = "square_sum"
// GENERIC: "arith.addi"(%a, %a) {{.*}} loc("<stdin>":10:3)

// A pass from a user's file takes options like any other; stdout contains only the IR.
// LOAD:      builtin.module {
// LOAD-NEXT: func.func @square_sum(%a: i32) -> i32 attributes {ops = 13 : i64}

// Everything else goes to stderr: what each pass changed, the IR, the time.
// WATCH:      // 1: canonicalize
// WATCH-NEXT:   @square_sum: 6 -> 5 ops
// WATCH-NEXT:   - arith.muli(%a, %a){{.*}} : i32  at {{.*}}driver.mlir:9:3
// WATCH-NEXT: // after 2: cse
// WATCH-NEXT: builtin.module {
// WATCH-NEXT:   func.func @square_sum
// WATCH:      // 2: cse
// WATCH-NEXT:   @square_sum: 5 -> 4 ops
// WATCH-NEXT:   ~ arith.muli(%b, %c){{.*}}  at {{.*}}driver.mlir:12:3
// WATCH-NEXT:     => arith.muli(%b, %b)
// WATCH-NEXT:   - arith.addi(%a, %a)
// WATCH-NEXT: // 3: count-ops
// WATCH:      pass
// WATCH-NEXT: canonicalize
// WATCH-NEXT: cse
// WATCH-NEXT: count-ops
// WATCH-NEXT: total

// The IR after each pass is written to one file per pass.
// DUMP:      %dead
// DUMP:      %c = arith.addi
// DUMP:      arith.muli %b, %b
