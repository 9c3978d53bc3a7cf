; A pool of threads for parallel loops.
;
;   tcopt_parallel(fn, ctx, total, grain, threads)
;
; calls fn(ctx, begin, end) on ranges that cover [0, total) once, of `grain` iterations or
; more where that many are left, and returns when all have run. threads = 0 asks for the
; default: TCOPT_NUM_THREADS, or else the cores this process may use.
;
; One region is open at a time. Who calls while one is open, from another thread or from
; inside it, runs its iterations alone. The opener hands out a ticket for each helper it
; wants; a worker takes part only if it claims a ticket while the region is open. The opener
; works too, then withdraws the tickets that are left and waits for the workers that came.
; So a worker that the system does not schedule costs nothing.
;
; The iterations are divided into one slot for each participant. A participant claims ranges
; from the front of its own slot, a quarter of what is left each time, then from the back of
; the others'. So successive loops find their data in the cache of the same core, and
; nobody waits while there is work.

; The state, and of the open region fn, ctx, grain and the number of slots: one cache line,
; as each line that another core has written takes as long as hundreds of instructions.
; Bits 0-14 of the state: workers inside the region. Bit 15: the opener sleeps until they
; have left. Bits 16-31: tickets. Bits 32-63: the region's number.
@pool.state = internal global { i64, ptr, ptr, i64, i32, [92 x i8] } zeroinitializer, align 128
; What is left of each slot: its begin in bits 0-31, its end in bits 32-63.
@pool.slots = internal global [128 x [16 x i64]] zeroinitializer, align 128
; 1 while a region is open.
@pool.owner = internal global [32 x i32] zeroinitializer, align 128
; Workers that sleep or are about to.
@pool.sleepers = internal global [32 x i32] zeroinitializer, align 128
; Threads created. Changed by the owner alone, and so is the limit.
@pool.workers = internal global i32 0, align 128
@pool.limit = internal global i32 127
@pool.registered = internal global i1 false
@pool.default = internal global i32 0
@pool.variable = private constant [18 x i8] c"TCOPT_NUM_THREADS\00"

declare ptr @getenv(ptr)
declare i32 @atoi(ptr)
declare i32 @clock_gettime(i32, ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @llvm.smin.i32(i32, i32)
declare i32 @llvm.smax.i32(i32, i32)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)

define $linkage void @tcopt_parallel(ptr %fn, ptr %ctx, i64 %total, i64 %grain, i32 %threads) nounwind {
entry:
  %patience = alloca [2 x i64], align 16
  store i64 0, ptr %patience
  %asked = icmp sgt i32 %threads, 0
  br i1 %asked, label %count, label %default
default:
  %usual = call i32 @pool.default_threads()
  br label %count
count:
  %wanted = phi i32 [ %threads, %entry ], [ %usual, %default ]
  %few = call i32 @llvm.smin.i32(i32 %wanted, i32 128)
  %few.wide = zext i32 %few to i64
  %up = add i64 %total, %grain
  %top = sub i64 %up, 1
  %pieces = udiv i64 %top, %grain
  %participants.wide = call i64 @llvm.umin.i64(i64 %pieces, i64 %few.wide)
  %participants = trunc i64 %participants.wide to i32
  %several = icmp sgt i32 %participants, 1
  %fits = icmp ult i64 %total, 2147483648
  %shared = and i1 %several, %fits
  br i1 %shared, label %lock, label %alone
lock:
  %claimed = cmpxchg ptr @pool.owner, i32 0, i32 1 acquire monotonic
  %owned = extractvalue { i32, i1 } %claimed, 1
  br i1 %owned, label %staff, label %alone
alone:
  call void %fn(ptr %ctx, i64 0, i64 %total)
  ret void
staff:
  %others = sub i32 %participants, 1
  %limit = load i32, ptr @pool.limit
  %allowed = call i32 @llvm.smin.i32(i32 %others, i32 %limit)
  %present = load i32, ptr @pool.workers
  %lacking = icmp slt i32 %present, %allowed
  br i1 %lacking, label %hire, label %staffed
hire:
  %grown = call i32 @pool.grow(i32 %allowed)
  br label %staffed
staffed:
  %workers = phi i32 [ %present, %staff ], [ %grown, %hire ]
  %helpers = call i32 @llvm.smin.i32(i32 %allowed, i32 %workers)
  %none = icmp eq i32 %helpers, 0
  br i1 %none, label %unstaffed, label %prepare
unstaffed:
  store atomic i32 0, ptr @pool.owner release, align 4
  br label %alone

prepare:
  %slots = add i32 %helpers, 1
  %slots.wide = zext i32 %slots to i64
  %fn.p = getelementptr i8, ptr @pool.state, i64 8
  %ctx.p = getelementptr i8, ptr @pool.state, i64 16
  %grain.p = getelementptr i8, ptr @pool.state, i64 24
  %slots.p = getelementptr i8, ptr @pool.state, i64 32
  store ptr %fn, ptr %fn.p
  store ptr %ctx, ptr %ctx.p
  store i64 %grain, ptr %grain.p
  store i32 %slots, ptr %slots.p
  %total.32 = trunc i64 %total to i32
  %share = udiv i32 %total.32, %slots
  %equal = mul i32 %share, %slots
  %rest = sub i32 %total.32, %equal
  br label %fill
fill:
  %i = phi i32 [ 0, %prepare ], [ %i.next, %fill ]
  %from = phi i32 [ 0, %prepare ], [ %to, %fill ]
  %larger = icmp ult i32 %i, %rest
  %one = zext i1 %larger to i32
  %size = add i32 %share, %one
  %to = add i32 %from, %size
  %from.wide = zext i32 %from to i64
  %to.wide = zext i32 %to to i64
  %to.high = shl i64 %to.wide, 32
  %slot = or i64 %to.high, %from.wide
  %slot.p = getelementptr [16 x i64], ptr @pool.slots, i32 %i
  store atomic i64 %slot, ptr %slot.p monotonic, align 8
  %i.next = add i32 %i, 1
  %more = icmp ult i32 %i.next, %slots
  br i1 %more, label %fill, label %open

open:
  %last = load atomic i64, ptr @pool.state monotonic, align 8
  %number = lshr i64 %last, 32
  %number.next = add i64 %number, 1
  %number.high = shl i64 %number.next, 32
  %tickets.wide = zext i32 %helpers to i64
  %tickets.high = shl i64 %tickets.wide, 16
  %opened = or i64 %number.high, %tickets.high
  ; Either this thread sees the worker in `sleepers`, or the worker sees the new number.
  %before = atomicrmw xchg ptr @pool.state, i64 %opened seq_cst
  %sleepers = load atomic i32, ptr @pool.sleepers seq_cst, align 4
  %awake = sub i32 %workers, %sleepers
  %missing = sub i32 %helpers, %awake
  %asleep = icmp sgt i32 %missing, 0
  br i1 %asleep, label %wake, label %work
wake:
  %number.p = getelementptr i8, ptr @pool.state, i64 4
  call void @pool.wake(ptr %number.p, i32 %missing)
  br label %work
work:
  call void @pool.work(i32 0)
  %closed = atomicrmw and ptr @pool.state, i64 -4294901761 acq_rel
  br label %wait

wait:
  %now = phi i64 [ %closed, %work ], [ %seen, %look ]
  %inside = and i64 %now, 32767
  %empty = icmp eq i64 %inside, 0
  br i1 %empty, label %done, label %spin
spin:
  %patient = call i1 @pool.spin(ptr %patience)
  br i1 %patient, label %look, label %sleep
look:
  %seen = load atomic i64, ptr @pool.state acquire, align 8
  br label %wait
sleep:
  %marked = atomicrmw or ptr @pool.state, i64 32768 acq_rel
  %marked.inside = and i64 %marked, 32767
  %left = icmp eq i64 %marked.inside, 0
  br i1 %left, label %done, label %doze
doze:
  %marked.now = or i64 %marked, 32768
  %marked.low = trunc i64 %marked.now to i32
  call void @pool.sleep(ptr @pool.state, i32 %marked.low)
  store i64 0, ptr %patience
  br label %look
done:
  store atomic i32 0, ptr @pool.owner release, align 4
  ret void
}

; Runs ranges of the open region until no slot has any left.
define internal void @pool.work(i32 %home) nounwind {
entry:
  %fn.p = getelementptr i8, ptr @pool.state, i64 8
  %ctx.p = getelementptr i8, ptr @pool.state, i64 16
  %grain.p = getelementptr i8, ptr @pool.state, i64 24
  %slots.p = getelementptr i8, ptr @pool.state, i64 32
  %fn = load ptr, ptr %fn.p
  %ctx = load ptr, ptr %ctx.p
  %grain = load i64, ptr %grain.p
  %slots = load i32, ptr %slots.p
  br label %scan
scan:
  %slot = phi i32 [ %home, %entry ], [ %slot, %run ], [ %following, %exhausted ]
  %visited = phi i32 [ 0, %entry ], [ %visited, %run ], [ %visited.next, %exhausted ]
  %slot.p = getelementptr [16 x i64], ptr @pool.slots, i32 %slot
  %first = load atomic i64, ptr %slot.p monotonic, align 8
  br label %claim
claim:
  %range = phi i64 [ %first, %scan ], [ %other, %take ]
  %begin = and i64 %range, 4294967295
  %end = lshr i64 %range, 32
  %left = sub i64 %end, %begin
  %empty = icmp eq i64 %left, 0
  br i1 %empty, label %exhausted, label %take
take:
  %quarter = lshr i64 %left, 2
  %worthwhile = call i64 @llvm.umax.i64(i64 %quarter, i64 %grain)
  %count = call i64 @llvm.umin.i64(i64 %worthwhile, i64 %left)
  %own = icmp eq i32 %slot, %home
  %after = add i64 %begin, %count
  %cut = sub i64 %end, %count
  %count.high = shl i64 %count, 32
  %front = add i64 %range, %count
  %back = sub i64 %range, %count.high
  %remaining = select i1 %own, i64 %front, i64 %back
  %from = select i1 %own, i64 %begin, i64 %cut
  %to = select i1 %own, i64 %after, i64 %end
  %result = cmpxchg ptr %slot.p, i64 %range, i64 %remaining monotonic monotonic
  %other = extractvalue { i64, i1 } %result, 0
  %taken = extractvalue { i64, i1 } %result, 1
  br i1 %taken, label %run, label %claim
run:
  call void %fn(ptr %ctx, i64 %from, i64 %to)
  br label %scan
exhausted:
  %up = add i32 %slot, 1
  %wraps = icmp eq i32 %up, %slots
  %following = select i1 %wraps, i32 0, i32 %up
  %visited.next = add i32 %visited, 1
  %all = icmp eq i32 %visited.next, %slots
  br i1 %all, label %done, label %scan
done:
  ret void
}

; What worker number `self` does, from 1 on: take part in regions, spin a while, sleep.
define internal ptr @pool.worker(ptr %self) nounwind {
entry:
  %patience = alloca [2 x i64], align 16
  %self.wide = ptrtoint ptr %self to i64
  %number = trunc i64 %self.wide to i32
  %slots.p = getelementptr i8, ptr @pool.state, i64 32
  %own.p = getelementptr [16 x i64], ptr @pool.slots, i32 %number
  %region.p = getelementptr i8, ptr @pool.state, i64 4
  br label %rested
rested:
  %last = phi i32 [ -1, %entry ], [ %region, %leave ], [ %region, %wake ], [ %known, %sleep ]
  store i64 0, ptr %patience
  br label %look
look:
  %known = phi i32 [ %last, %rested ], [ %known, %enter ], [ %known, %idle ]
  %state = load atomic i64, ptr @pool.state acquire, align 8
  %region.wide = lshr i64 %state, 32
  %region = trunc i64 %region.wide to i32
  %low = trunc i64 %state to i32
  %tickets = lshr i32 %low, 16
  %open = icmp ne i32 %tickets, 0
  %new = icmp ne i32 %region, %known
  %welcome = and i1 %open, %new
  br i1 %welcome, label %enter, label %idle
enter:
  ; The slot that this worker most likely has comes while it enters.
  call void @llvm.prefetch.p0(ptr %own.p, i32 1, i32 3, i32 1)
  %entered = sub i64 %state, 65535
  %result = cmpxchg ptr @pool.state, i64 %state, i64 %entered acq_rel monotonic
  %admitted = extractvalue { i64, i1 } %result, 1
  br i1 %admitted, label %join, label %look
join:
  ; The same slot each time where there is one for this worker, else that of the ticket.
  %slots = load i32, ptr %slots.p
  %regular = icmp ult i32 %number, %slots
  %home = select i1 %regular, i32 %number, i32 %tickets
  call void @pool.work(i32 %home)
  %before = atomicrmw sub ptr @pool.state, i64 1 acq_rel
  %before.low = and i64 %before, 65535
  %awaited = icmp eq i64 %before.low, 32769
  br i1 %awaited, label %wake, label %leave
wake:
  call void @pool.wake(ptr @pool.state, i32 1)
  br label %rested
leave:
  br label %rested
idle:
  %patient = call i1 @pool.spin(ptr %patience)
  br i1 %patient, label %look, label %sleep
sleep:
  %slept = atomicrmw add ptr @pool.sleepers, i32 1 seq_cst
  call void @pool.sleep(ptr %region.p, i32 %region)
  %woke = atomicrmw sub ptr @pool.sleepers, i32 1 seq_cst
  br label %rested
}

; Pauses; false once the spinning has lasted long enough. %patience: the times it has been
; called, 0 at first, and when it began, in nanoseconds. How long the processor's pause takes
; differs by a factor of 30 between models, so a clock is read now and then.
define internal i1 @pool.spin(ptr %patience) nounwind {
entry:
  %time = alloca [2 x i64], align 16
  call void @pool.pause()
  %since.p = getelementptr i64, ptr %patience, i64 1
  %calls = load i64, ptr %patience
  %up = add i64 %calls, 1
  store i64 %up, ptr %patience
  %phase = and i64 %calls, 63
  %check = icmp eq i64 %phase, 0
  br i1 %check, label %clock, label %on
clock:
  %status = call i32 @clock_gettime(i32 $clock, ptr %time)
  %part.p = getelementptr i64, ptr %time, i64 1
  %seconds = load i64, ptr %time
  %part = load i64, ptr %part.p
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %part
  %first = icmp eq i64 %calls, 0
  br i1 %first, label %begin, label %compare
begin:
  store i64 %now, ptr %since.p
  br label %on
compare:
  %since = load i64, ptr %since.p
  %lasted = sub i64 %now, %since
  %short = icmp ult i64 %lasted, $spin
  ret i1 %short
on:
  ret i1 true
}

; Creates threads until there are `wanted`; returns how many there are. They take no signals.
define internal i32 @pool.grow(i32 %wanted) nounwind {
entry:
  %thread = alloca [2 x i64], align 16
  %attributes = alloca [32 x i64], align 16
  %every = alloca [16 x i64], align 16
  %masked = alloca [16 x i64], align 16
  %registered = load i1, ptr @pool.registered
  br i1 %registered, label %block, label %register
register:
  call void @pool.prepare_sleep()
  call void @pool.at_fork(ptr @pool.forked)
  store i1 true, ptr @pool.registered
  br label %block
block:
  %filled = call i32 @sigfillset(ptr %every)
  %blocked = call i32 @pthread_sigmask(i32 $setmask, ptr %every, ptr %masked)
  %ready = call i32 @pthread_attr_init(ptr %attributes)
  %sized = call i32 @pthread_attr_setstacksize(ptr %attributes, i64 8388608)
  br label %check
check:
  %have = load i32, ptr @pool.workers
  %enough = icmp sge i32 %have, %wanted
  br i1 %enough, label %done, label %create
create:
  %next = add i32 %have, 1
  %number = zext i32 %next to i64
  %argument = inttoptr i64 %number to ptr
  %status = call i32 @pthread_create(ptr %thread, ptr %attributes, ptr @pool.worker, ptr %argument)
  %created = icmp eq i32 %status, 0
  br i1 %created, label %count, label %refuse
count:
  %handle = load ptr, ptr %thread
  %detached = call i32 @pthread_detach(ptr %handle)
  store i32 %next, ptr @pool.workers
  br label %check
refuse:
  ; The system gives no more threads, and is not asked again.
  store i32 %have, ptr @pool.limit
  br label %done
done:
  %destroyed = call i32 @pthread_attr_destroy(ptr %attributes)
  %unblocked = call i32 @pthread_sigmask(i32 $setmask, ptr %masked, ptr null)
  %workers = load i32, ptr @pool.workers
  ret i32 %workers
}

; In the child of a fork there are no workers and no region.
define internal void @pool.forked() nounwind {
  store i32 0, ptr @pool.workers
  store atomic i32 0, ptr @pool.sleepers monotonic, align 4
  store atomic i64 0, ptr @pool.state monotonic, align 8
  call void @pool.prepare_sleep()
  store atomic i32 0, ptr @pool.owner release, align 4
  ret void
}

; The number of threads where none is asked for.
define internal i32 @pool.default_threads() nounwind {
entry:
  %known = load atomic i32, ptr @pool.default monotonic, align 4
  %found = icmp ne i32 %known, 0
  br i1 %found, label %done, label %environment
environment:
  %text = call ptr @getenv(ptr @pool.variable)
  %set = icmp ne ptr %text, null
  br i1 %set, label %parse, label %cores
parse:
  %parsed = call i32 @atoi(ptr %text)
  %positive = icmp sgt i32 %parsed, 0
  br i1 %positive, label %keep, label %cores
cores:
  %usable = call i32 @pool.cores()
  br label %keep
keep:
  %number = phi i32 [ %parsed, %parse ], [ %usable, %cores ]
  %some = call i32 @llvm.smax.i32(i32 %number, i32 1)
  store atomic i32 %some, ptr @pool.default monotonic, align 4
  br label %done
done:
  %result = phi i32 [ %known, %entry ], [ %some, %keep ]
  ret i32 %result
}
