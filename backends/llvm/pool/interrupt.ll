; Ctrl-C while native code runs.
;
; Python's own handler notes the signal and leaves the rest to the interpreter, which does not
; run meanwhile. This one, in front of it, also sets the variable that makes the code stop.

; The variable of what the main thread runs, or ran last; null before.
@tcopt_watched = global ptr null
; What was there before: at first, and the last time that somebody else's was found.
@watch.first = internal global ptr null
@watch.previous = internal global ptr null
@watch.depth = internal global i32 0

declare i32 @sigaction(i32, ptr, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal void @watch.handle(i32 %signal, ptr %info, ptr %context) nounwind {
entry:
  %flag = load atomic ptr, ptr @tcopt_watched monotonic, align 8
  %nothing = icmp eq ptr %flag, null
  br i1 %nothing, label %pass, label %stop
stop:
  store atomic i32 1, ptr %flag monotonic, align 4
  br label %pass
pass:
  ; Who came after us may call us in turn: then the first one is next, so that there is an end.
  %depth = atomicrmw add ptr @watch.depth, i32 1 monotonic
  %again = icmp ne i32 %depth, 0
  %first = load ptr, ptr @watch.first
  %previous = load ptr, ptr @watch.previous
  %next = select i1 %again, ptr %first, ptr %previous
  call void %next(i32 %signal, ptr %info, ptr %context)
  %left = atomicrmw sub ptr @watch.depth, i32 1 monotonic
  ret void
}

; Puts the handler in front of the one that is there. 0 if there is none to call. The handler's
; address is what a description of it begins with, on all systems.
define i32 @tcopt_watch_interrupts() nounwind {
entry:
  %action = alloca [64 x i64], align 16
  call void @llvm.memset.p0.i64(ptr align 16 %action, i8 0, i64 512, i1 false)
  %asked = call i32 @sigaction(i32 2, ptr null, ptr %action)
  %refused = icmp ne i32 %asked, 0
  br i1 %refused, label %without, label %look
look:
  %present = load ptr, ptr %action
  %ours = icmp eq ptr %present, @watch.handle
  br i1 %ours, label %watched, label %other
other:
  %number = ptrtoint ptr %present to i64
  ; The default, which ends the process, and none at all.
  %nobody = icmp ult i64 %number, 2
  br i1 %nobody, label %without, label %chain
chain:
  store ptr %present, ptr @watch.previous
  %known = load ptr, ptr @watch.first
  %new = icmp eq ptr %known, null
  %first = select i1 %new, ptr %present, ptr %known
  store ptr %first, ptr @watch.first
  store ptr @watch.handle, ptr %action
  %set = call i32 @sigaction(i32 2, ptr %action, ptr null)
  %failed = icmp ne i32 %set, 0
  br i1 %failed, label %without, label %watched
watched:
  ret i32 1
without:
  ret i32 0
}
