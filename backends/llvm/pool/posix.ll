; Sleeping where there are no futexes: one condition variable for all.

@pool.mutex = internal global [16 x i64] zeroinitializer, align 64
@pool.condition = internal global [16 x i64] zeroinitializer, align 64

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i64 @sysconf(i32)

; Sleeps while the word at %word is %value; may also return early.
define internal void @pool.sleep(ptr %word, i32 %value) nounwind {
  %locked = call i32 @pthread_mutex_lock(ptr @pool.mutex)
  %now = load atomic i32, ptr %word acquire, align 4
  %same = icmp eq i32 %now, %value
  br i1 %same, label %wait, label %done
wait:
  %waited = call i32 @pthread_cond_wait(ptr @pool.condition, ptr @pool.mutex)
  br label %done
done:
  %unlocked = call i32 @pthread_mutex_unlock(ptr @pool.mutex)
  ret void
}

; Wakes all threads that sleep.
define internal void @pool.wake(ptr %word, i32 %count) nounwind {
  %locked = call i32 @pthread_mutex_lock(ptr @pool.mutex)
  %sent = call i32 @pthread_cond_broadcast(ptr @pool.condition)
  %unlocked = call i32 @pthread_mutex_unlock(ptr @pool.mutex)
  ret void
}

define internal void @pool.prepare_sleep() nounwind {
  %mutex = call i32 @pthread_mutex_init(ptr @pool.mutex, ptr null)
  %condition = call i32 @pthread_cond_init(ptr @pool.condition, ptr null)
  ret void
}

; The cores that are switched on.
define internal i32 @pool.cores() nounwind {
  %cores.wide = call i64 @sysconf(i32 $online)
  %cores = trunc i64 %cores.wide to i32
  ret i32 %cores
}
