; Made from interrupt.c by generate.py. Do not edit.

%struct.Action = type { ptr, [63 x i64] }

@tcopt_watched = global ptr null, align 8
@previous = internal global ptr null, align 8
@first = internal global ptr null, align 8
@depth = internal global i32 0, align 4

define range(i32 0, 2) i32 @tcopt_watch_interrupts() nounwind {
entry:
  %action = alloca %struct.Action, align 8
  call void @llvm.memset.p0.i64(ptr nonnull align 8 dereferenceable(512) %action, i8 0, i64 512, i1 false)
  %call = call i32 @sigaction(i32 2, ptr null, ptr nonnull %action)
  %cmp.not = icmp eq i32 %call, 0
  br i1 %cmp.not, label %if.end, label %cleanup13

if.end:
  %0 = load ptr, ptr %action, align 8
  %cmp1 = icmp eq ptr %0, @handle
  br i1 %cmp1, label %cleanup13, label %if.end3

if.end3:
  %cmp4 = icmp ult ptr %0, inttoptr (i64 2 to ptr)
  br i1 %cmp4, label %cleanup13, label %if.end6

if.end6:
  store ptr %0, ptr @previous, align 8
  %1 = load ptr, ptr @first, align 8
  %cmp7 = icmp eq ptr %1, null
  br i1 %cmp7, label %if.then8, label %if.end9

if.then8:
  store ptr %0, ptr @first, align 8
  br label %if.end9

if.end9:
  store ptr @handle, ptr %action, align 8
  %call11 = call i32 @sigaction(i32 2, ptr nonnull %action, ptr null)
  %cmp12 = icmp eq i32 %call11, 0
  %conv = zext i1 %cmp12 to i32
  br label %cleanup13

cleanup13:
  %retval.1 = phi i32 [ 0, %entry ], [ %conv, %if.end9 ], [ 1, %if.end ], [ 0, %if.end3 ]
  ret i32 %retval.1
}

define internal void @handle(i32 %signal, ptr %info, ptr %context) nounwind {
entry:
  %0 = load volatile ptr, ptr @tcopt_watched, align 8
  %cmp.not = icmp eq ptr %0, null
  br i1 %cmp.not, label %if.end, label %if.then

if.then:
  store atomic i32 1, ptr %0 monotonic, align 4
  br label %if.end

if.end:
  %1 = atomicrmw add ptr @depth, i32 1 monotonic, align 4
  %cmp2.not = icmp eq i32 %1, 0
  %2 = load ptr, ptr @first, align 8
  %3 = load ptr, ptr @previous, align 8
  %cond = select i1 %cmp2.not, ptr %3, ptr %2
  tail call void %cond(i32 %signal, ptr %info, ptr %context)
  %4 = atomicrmw sub ptr @depth, i32 1 monotonic, align 4
  ret void
}

declare i32 @sigaction(i32, ptr, ptr)
declare void @llvm.memset.p0.i64(ptr writeonly, i8, i64, i1 immarg)
