; Sleeping on Linux: futexes, private to the process.

declare i64 @syscall(i64, ...)
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i64 @llvm.ctpop.i64(i64)

; Sleeps while the word at %word is %value; may also return early.
define internal void @pool.sleep(ptr %word, i32 %value) nounwind {
  %status = call i64 (i64, ...) @syscall(i64 $futex, ptr %word, i32 128, i32 %value, ptr null)
  ret void
}

; Wakes up to %count threads that sleep on %word.
define internal void @pool.wake(ptr %word, i32 %count) nounwind {
  %status = call i64 (i64, ...) @syscall(i64 $futex, ptr %word, i32 129, i32 %count)
  ret void
}

define internal void @pool.prepare_sleep() nounwind {
  ret void
}

; The cores this process may run on.
define internal i32 @pool.cores() nounwind {
entry:
  %mask = alloca [16 x i64], align 16
  call void @llvm.memset.p0.i64(ptr align 16 %mask, i8 0, i64 128, i1 false)
  %status = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mask)
  br label %add
add:
  %i = phi i64 [ 0, %entry ], [ %i.next, %add ]
  %sum = phi i64 [ 0, %entry ], [ %sum.next, %add ]
  %word.p = getelementptr i64, ptr %mask, i64 %i
  %word = load i64, ptr %word.p
  %bits = call i64 @llvm.ctpop.i64(i64 %word)
  %sum.next = add i64 %sum, %bits
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, 16
  br i1 %more, label %add, label %done
done:
  %cores = trunc i64 %sum.next to i32
  ret i32 %cores
}

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
