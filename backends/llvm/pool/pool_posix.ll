; Made from pool.c by generate.py. Do not edit.

%struct.anon = type { i64, ptr, ptr, i64, i32, i32, [88 x i8] }
%struct.anon.0 = type { i64, [120 x i8] }
%struct.Patience = type { i64, i64 }
%struct.Time = type { i64, i64 }

@owner = internal global i32 0, align 128
@limit = internal global i32 127, align 4
@workers = internal global i32 0, align 128
@region = internal global %struct.anon zeroinitializer, align 128
@sleepers = internal global i32 0, align 128
@usual_threads = internal global i32 0, align 4
@.str = private constant [18 x i8] c"TCOPT_NUM_THREADS\00", align 1
@pool_online = external hidden constant i32, align 4
@registered = internal global i1 false, align 1
@pool_sigbus = external hidden constant i32, align 4
@pool_setmask = external hidden constant i32, align 4
@mutex = internal global [16 x i64] zeroinitializer, align 64
@condition = internal global [16 x i64] zeroinitializer, align 64
@slots = internal global [128 x %struct.anon.0] zeroinitializer, align 128
@pool_clock = external hidden constant i32, align 4
@pool_spin_ns = external hidden constant i64, align 8

define void @tcopt_parallel(ptr %fn, ptr %ctx, i64 %total, i64 %grain, i32 %threads) nounwind {
entry:
  %patience.i = alloca %struct.Patience, align 8
  %cmp = icmp slt i32 %threads, 1
  br i1 %cmp, label %if.then, label %if.end

if.then:
  %call = tail call fastcc i32 @default_threads()
  br label %if.end

if.end:
  %threads.addr.0 = phi i32 [ %call, %if.then ], [ %threads, %entry ]
  %cond.i = tail call i32 @llvm.smin.i32(i32 %threads.addr.0, i32 128)
  %add = add i64 %total, -1
  %sub = add i64 %add, %grain
  %div = udiv i64 %sub, %grain
  %conv = sext i32 %cond.i to i64
  %cmp2 = icmp ult i64 %div, %conv
  %conv4 = trunc i64 %div to i32
  %cond = select i1 %cmp2, i32 %conv4, i32 %cond.i
  %cmp5 = icmp sgt i32 %cond, 1
  %cmp7.not = icmp ult i64 %total, 2147483648
  %or.cond = and i1 %cmp7.not, %cmp5
  br i1 %or.cond, label %lor.lhs.false9, label %if.then10

lor.lhs.false9:
  %0 = cmpxchg ptr @owner, i32 0, i32 1 acquire monotonic, align 128
  %1 = extractvalue { i32, i1 } %0, 1
  br i1 %1, label %if.end11, label %if.then10

if.then10:
  tail call void %fn(ptr %ctx, i64 0, i64 %total)
  br label %cleanup50

if.end11:
  %sub12 = add nsw i32 %cond, -1
  %2 = load i32, ptr @limit, align 4
  %cond.i76 = tail call i32 @llvm.smin.i32(i32 %sub12, i32 %2)
  %3 = load i32, ptr @workers, align 128
  %cmp14 = icmp slt i32 %3, %cond.i76
  br i1 %cmp14, label %cond.true16, label %cond.end19

cond.true16:
  %call17 = tail call fastcc i32 @grow(i32 %cond.i76)
  br label %cond.end19

cond.end19:
  %cond20 = phi i32 [ %call17, %cond.true16 ], [ %3, %if.end11 ]
  %cond.i77 = tail call i32 @llvm.smin.i32(i32 %cond.i76, i32 %cond20)
  %cmp22 = icmp eq i32 %cond.i77, 0
  br i1 %cmp22, label %if.then24, label %if.end26

if.then24:
  store atomic i32 0, ptr @owner release, align 128
  tail call void %fn(ptr %ctx, i64 0, i64 %total)
  br label %cleanup50

if.end26:
  store ptr %fn, ptr getelementptr inbounds (i8, ptr @region, i64 8), align 8
  store ptr %ctx, ptr getelementptr inbounds (i8, ptr @region, i64 16), align 16
  store i64 %grain, ptr getelementptr inbounds (i8, ptr @region, i64 24), align 8
  %add27 = add nsw i32 %cond.i77, 1
  store i32 %add27, ptr getelementptr inbounds (i8, ptr @region, i64 32), align 32
  store atomic i32 -1, ptr getelementptr inbounds (i8, ptr @region, i64 36) monotonic, align 4
  %conv30 = trunc nuw i64 %total to i32
  %div.i = udiv i32 %conv30, %add27
  %rem.i = urem i32 %conv30, %add27
  %4 = zext nneg i32 %rem.i to i64
  %umax.i = tail call i32 @llvm.umax.i32(i32 %add27, i32 1)
  %wide.trip.count.i = zext i32 %umax.i to i64
  br label %for.body.i

for.body.i:
  %indvars.iv.i = phi i64 [ 0, %if.end26 ], [ %indvars.iv.next.i, %for.body.i ]
  %from.014.i = phi i32 [ 0, %if.end26 ], [ %add2.i, %for.body.i ]
  %add.i = add i32 %from.014.i, %div.i
  %cmp1.i = icmp ult i64 %indvars.iv.i, %4
  %conv.i = zext i1 %cmp1.i to i32
  %add2.i = add i32 %add.i, %conv.i
  %arrayidx.i = getelementptr inbounds [128 x %struct.anon.0], ptr @slots, i64 0, i64 %indvars.iv.i
  %conv3.i = zext i32 %add2.i to i64
  %shl.i = shl nuw i64 %conv3.i, 32
  %conv4.i = zext i32 %from.014.i to i64
  %or.i = or disjoint i64 %shl.i, %conv4.i
  store atomic i64 %or.i, ptr %arrayidx.i monotonic, align 128
  %indvars.iv.next.i = add nuw nsw i64 %indvars.iv.i, 1
  %exitcond.not.i = icmp eq i64 %indvars.iv.next.i, %wide.trip.count.i
  br i1 %exitcond.not.i, label %fill.exit, label %for.body.i

fill.exit:
  %5 = load atomic i64, ptr @region monotonic, align 128
  %shr32 = and i64 %5, -4294967296
  %shl = add i64 %shr32, 4294967296
  %conv34 = sext i32 %cond.i77 to i64
  %mul = shl nsw i64 %conv34, 16
  %or = or i64 %shl, %mul
  %6 = atomicrmw xchg ptr @region, i64 %or seq_cst, align 128
  %7 = load atomic i32, ptr @sleepers seq_cst, align 128
  %sub38.neg = sub i32 %cond.i77, %cond20
  %sub39 = add i32 %sub38.neg, %7
  %cmp40 = icmp sgt i32 %sub39, 0
  br i1 %cmp40, label %if.then42, label %if.end44

if.then42:
  %call.i = tail call i32 @pthread_mutex_lock(ptr nonnull @mutex)
  %call1.i = tail call i32 @pthread_cond_broadcast(ptr nonnull @condition)
  %call2.i = tail call i32 @pthread_mutex_unlock(ptr nonnull @mutex)
  br label %if.end44

if.end44:
  tail call fastcc void @work(i32 0)
  %8 = atomicrmw and ptr @region, i64 -4294901761 acq_rel, align 128
  call void @llvm.memset.p0.i64(ptr nonnull align 8 dereferenceable(16) %patience.i, i8 0, i64 16, i1 false)
  %and9.i = and i64 %8, 32767
  %cmp.not10.i = icmp eq i64 %and9.i, 0
  br i1 %cmp.not10.i, label %await.exit, label %while.body.i

while.body.i:
  %call.i78 = call fastcc zeroext i1 @spin(ptr nonnull %patience.i)
  br i1 %call.i78, label %if.end5.i, label %if.then.i

if.then.i:
  %9 = atomicrmw or ptr @region, i64 32768 acq_rel, align 128
  %and1.i = and i64 %9, 32767
  %cmp2.i = icmp eq i64 %and1.i, 0
  br i1 %cmp2.i, label %await.exit, label %if.end.i

if.end.i:
  %10 = trunc i64 %9 to i32
  %conv.i79 = or i32 %10, 32768
  %call.i.i = tail call i32 @pthread_mutex_lock(ptr nonnull @mutex)
  %11 = load atomic i32, ptr @region acquire, align 128
  %cmp.i.i = icmp eq i32 %11, %conv.i79
  br i1 %cmp.i.i, label %if.then.i.i, label %pool_sleep.exit.i

if.then.i.i:
  %call1.i.i = tail call i32 @pthread_cond_wait(ptr nonnull @condition, ptr nonnull @mutex)
  br label %pool_sleep.exit.i

pool_sleep.exit.i:
  %call2.i.i = tail call i32 @pthread_mutex_unlock(ptr nonnull @mutex)
  store i64 0, ptr %patience.i, align 8
  br label %if.end5.i

if.end5.i:
  %12 = load atomic i64, ptr @region acquire, align 128
  %and.i = and i64 %12, 32767
  %cmp.not.i = icmp eq i64 %and.i, 0
  br i1 %cmp.not.i, label %await.exit, label %while.body.i

await.exit:
  store atomic i32 0, ptr @owner release, align 128
  br label %cleanup50

cleanup50:
  ret void
}

define internal fastcc i32 @default_threads() nounwind {
entry:
  %0 = load atomic i32, ptr @usual_threads monotonic, align 4
  %cmp.not = icmp eq i32 %0, 0
  br i1 %cmp.not, label %if.end, label %cleanup

if.end:
  %call = tail call ptr @getenv(ptr nonnull @.str)
  %cmp1 = icmp eq ptr %call, null
  br i1 %cmp1, label %if.then4, label %cond.end

cond.end:
  %call2 = tail call i32 @atoi(ptr nonnull %call)
  %cmp3 = icmp slt i32 %call2, 1
  br i1 %cmp3, label %if.then4, label %if.end6

if.then4:
  %1 = load i32, ptr @pool_online, align 4
  %call.i = tail call i64 @sysconf(i32 %1)
  %conv.i = trunc i64 %call.i to i32
  br label %if.end6

if.end6:
  %number.0 = phi i32 [ %conv.i, %if.then4 ], [ %call2, %cond.end ]
  %spec.store.select = tail call i32 @llvm.smax.i32(i32 %number.0, i32 1)
  store atomic i32 %spec.store.select, ptr @usual_threads monotonic, align 4
  br label %cleanup

cleanup:
  %retval.0 = phi i32 [ %spec.store.select, %if.end6 ], [ %0, %entry ]
  ret i32 %retval.0
}

define internal fastcc i32 @grow(i32 %wanted) nounwind {
entry:
  %attributes = alloca [32 x i64], align 16
  %every = alloca [16 x i64], align 16
  %before = alloca [16 x i64], align 16
  %faults = alloca [5 x i32], align 16
  %thread = alloca ptr, align 8
  %.b36 = load i1, ptr @registered, align 1
  br i1 %.b36, label %if.end, label %if.then

if.then:
  %call.i = tail call i32 @pthread_mutex_init(ptr nonnull @mutex, ptr null)
  %call1.i = tail call i32 @pthread_cond_init(ptr nonnull @condition, ptr null)
  tail call void @pool_at_fork(ptr nonnull @forked)
  store i1 true, ptr @registered, align 1
  br label %if.end

if.end:
  %call = call i32 @sigfillset(ptr nonnull %every)
  store i32 4, ptr %faults, align 16
  %arrayinit.element = getelementptr inbounds i8, ptr %faults, i64 4
  store i32 5, ptr %arrayinit.element, align 4
  %arrayinit.element1 = getelementptr inbounds i8, ptr %faults, i64 8
  store i32 8, ptr %arrayinit.element1, align 8
  %arrayinit.element2 = getelementptr inbounds i8, ptr %faults, i64 12
  %0 = load i32, ptr @pool_sigbus, align 4
  store i32 %0, ptr %arrayinit.element2, align 4
  %arrayinit.element3 = getelementptr inbounds i8, ptr %faults, i64 16
  store i32 11, ptr %arrayinit.element3, align 16
  br label %for.body

for.cond.cleanup:
  %1 = load i32, ptr @pool_setmask, align 4
  %call9 = call i32 @pthread_sigmask(i32 %1, ptr nonnull %every, ptr nonnull %before)
  %call11 = call i32 @pthread_attr_init(ptr nonnull %attributes)
  %call13 = call i32 @pthread_attr_setstacksize(ptr nonnull %attributes, i64 8388608)
  %.old = load i32, ptr @workers, align 128
  %cmp14.old = icmp slt i32 %.old, %wanted
  br i1 %cmp14.old, label %while.body, label %while.end

for.body:
  %indvars.iv = phi i64 [ 0, %if.end ], [ %indvars.iv.next, %for.body ]
  %arrayidx = getelementptr inbounds [5 x i32], ptr %faults, i64 0, i64 %indvars.iv
  %2 = load i32, ptr %arrayidx, align 4
  %call6 = call i32 @sigdelset(ptr nonnull %every, i32 %2)
  %indvars.iv.next = add nuw nsw i64 %indvars.iv, 1
  %exitcond.not = icmp eq i64 %indvars.iv.next, 5
  br i1 %exitcond.not, label %for.cond.cleanup, label %for.body

while.body:
  %3 = phi i32 [ %inc24, %cleanup ], [ %.old, %for.cond.cleanup ]
  %add = add nsw i32 %3, 1
  %conv16 = sext i32 %add to i64
  %4 = inttoptr i64 %conv16 to ptr
  %call18 = call i32 @pthread_create(ptr nonnull %thread, ptr nonnull %attributes, ptr nonnull @worker, ptr %4)
  %cmp19.not = icmp eq i32 %call18, 0
  br i1 %cmp19.not, label %cleanup, label %cleanup.thread

cleanup.thread:
  %5 = load i32, ptr @workers, align 128
  store i32 %5, ptr @limit, align 4
  br label %while.end

cleanup:
  %6 = load ptr, ptr %thread, align 8
  %call23 = call i32 @pthread_detach(ptr %6)
  %7 = load i32, ptr @workers, align 128
  %inc24 = add nsw i32 %7, 1
  store i32 %inc24, ptr @workers, align 128
  %cmp14 = icmp slt i32 %inc24, %wanted
  br i1 %cmp14, label %while.body, label %while.end

while.end:
  %call27 = call i32 @pthread_attr_destroy(ptr nonnull %attributes)
  %call29 = call i32 @pthread_sigmask(i32 %1, ptr nonnull %before, ptr null)
  %8 = load i32, ptr @workers, align 128
  ret i32 %8
}

define internal fastcc void @work(i32 %home) nounwind {
entry:
  %0 = load ptr, ptr getelementptr inbounds (i8, ptr @region, i64 8), align 8
  %1 = load ptr, ptr getelementptr inbounds (i8, ptr @region, i64 16), align 16
  %2 = load i64, ptr getelementptr inbounds (i8, ptr @region, i64 24), align 8
  %3 = load i32, ptr getelementptr inbounds (i8, ptr @region, i64 32), align 32
  %cmp.not78 = icmp eq i32 %3, 0
  br i1 %cmp.not78, label %for.cond.cleanup, label %for.body

for.cond.loopexit:
  %add = add i32 %slot.080, 1
  %cmp6 = icmp eq i32 %add, %3
  %cond = select i1 %cmp6, i32 0, i32 %add
  %inc = add i32 %visited.079, 1
  %cmp.not = icmp eq i32 %inc, %3
  br i1 %cmp.not, label %for.cond.cleanup, label %for.body

for.cond.cleanup:
  ret void

for.body:
  %slot.080 = phi i32 [ %cond, %for.cond.loopexit ], [ %home, %entry ]
  %visited.079 = phi i32 [ %inc, %for.cond.loopexit ], [ 0, %entry ]
  %idxprom = zext i32 %slot.080 to i64
  %arrayidx = getelementptr inbounds [128 x %struct.anon.0], ptr @slots, i64 0, i64 %idxprom
  %4 = load atomic i64, ptr %arrayidx monotonic, align 128
  %cmp22 = icmp eq i32 %slot.080, %home
  %conv386 = and i64 %4, 4294967295
  %shr87 = lshr i64 %4, 32
  %cmp488 = icmp eq i64 %shr87, %conv386
  br i1 %cmp488, label %for.cond.loopexit, label %if.end

if.end:
  %shr91 = phi i64 [ %shr, %cleanup46 ], [ %shr87, %for.body ]
  %conv390 = phi i64 [ %conv3, %cleanup46 ], [ %conv386, %for.body ]
  %range1.089 = phi i64 [ %range1.3, %cleanup46 ], [ %4, %for.body ]
  %sub = sub nsw i64 %shr91, %conv390
  %div77 = lshr i64 %sub, 2
  %cond15 = tail call i64 @llvm.umax.i64(i64 %div77, i64 %2)
  %cond21 = tail call i64 @llvm.umin.i64(i64 %cond15, i64 %sub)
  %shl.neg = mul i64 %cond21, -4294967296
  %cond30.p = select i1 %cmp22, i64 %cond21, i64 %shl.neg
  %cond30 = add i64 %cond30.p, %range1.089
  %5 = cmpxchg ptr %arrayidx, i64 %range1.089, i64 %cond30 monotonic monotonic, align 8
  %6 = extractvalue { i64, i1 } %5, 1
  %7 = extractvalue { i64, i1 } %5, 0
  br i1 %6, label %if.end34, label %cleanup46

if.end34:
  %sub39 = sub i64 %shr91, %cond21
  %cond41 = select i1 %cmp22, i64 %conv390, i64 %sub39
  %add42 = add i64 %cond41, %cond21
  tail call void %0(ptr %1, i64 %cond41, i64 %add42)
  %8 = load atomic i64, ptr %arrayidx monotonic, align 128
  br label %cleanup46

cleanup46:
  %range1.3 = phi i64 [ %8, %if.end34 ], [ %7, %if.end ]
  %conv3 = and i64 %range1.3, 4294967295
  %shr = lshr i64 %range1.3, 32
  %cmp4 = icmp eq i64 %shr, %conv3
  br i1 %cmp4, label %for.cond.loopexit, label %if.end
}

define internal void @forked() nounwind {
entry:
  store i32 0, ptr @workers, align 128
  store atomic i32 0, ptr @sleepers monotonic, align 128
  store atomic i64 0, ptr @region monotonic, align 128
  %call.i = tail call i32 @pthread_mutex_init(ptr nonnull @mutex, ptr null)
  %call1.i = tail call i32 @pthread_cond_init(ptr nonnull @condition, ptr null)
  store atomic i32 0, ptr @owner release, align 128
  ret void
}

define internal noalias nonnull ptr @worker(ptr %self) nounwind {
entry:
  %patience = alloca %struct.Patience, align 8
  %0 = ptrtoint ptr %self to i64
  %conv = trunc i64 %0 to i32
  call void @llvm.memset.p0.i64(ptr nonnull align 8 dereferenceable(16) %patience, i8 0, i64 16, i1 false)
  %idxprom = and i64 %0, 4294967295
  %arrayidx = getelementptr inbounds [128 x %struct.anon.0], ptr @slots, i64 0, i64 %idxprom
  br label %for.cond.outer

for.cond.outer:
  %last.0.ph = phi i32 [ %last.4, %if.end48 ], [ -1, %entry ]
  br label %for.cond

for.cond:
  %1 = load atomic i64, ptr @region acquire, align 128
  %shr = lshr i64 %1, 32
  %conv1 = trunc nuw i64 %shr to i32
  %conv2 = trunc i64 %1 to i32
  %cmp.not = icmp ult i32 %conv2, 65536
  %cmp4.not = icmp eq i32 %last.0.ph, %conv1
  %or.cond = select i1 %cmp.not, i1 true, i1 %cmp4.not
  br i1 %or.cond, label %land.lhs.true33, label %if.then

if.then:
  tail call void @llvm.prefetch.p0(ptr nonnull %arrayidx, i32 1, i32 3, i32 1)
  %add = add i64 %1, -65535
  %2 = cmpxchg ptr @region, i64 %1, i64 %add acq_rel monotonic, align 128
  %3 = extractvalue { i64, i1 } %2, 1
  br i1 %3, label %if.end9, label %for.cond.backedge

for.cond.backedge:
  br label %for.cond

if.end9:
  %div71 = lshr i32 %conv2, 16
  %4 = load i32, ptr getelementptr inbounds (i8, ptr @region, i64 32), align 32
  %cmp10 = icmp ugt i32 %4, %conv
  %cond = select i1 %cmp10, i32 %conv, i32 %div71
  tail call fastcc void @work(i32 %cond)
  %5 = atomicrmw sub ptr @region, i64 1 acq_rel, align 128
  %and = and i64 %5, 65535
  %cmp14 = icmp eq i64 %and, 32769
  br i1 %cmp14, label %if.then16, label %if.end48

if.then16:
  %call.i = tail call i32 @pthread_mutex_lock(ptr nonnull @mutex)
  %call1.i = tail call i32 @pthread_cond_broadcast(ptr nonnull @condition)
  %call2.i = tail call i32 @pthread_mutex_unlock(ptr nonnull @mutex)
  br label %if.end48

land.lhs.true33:
  %call34 = call fastcc zeroext i1 @spin(ptr nonnull %patience)
  br i1 %call34, label %for.cond.backedge, label %if.else37

if.else37:
  %6 = atomicrmw add ptr @sleepers, i32 1 seq_cst, align 128
  %call.i72 = tail call i32 @pthread_mutex_lock(ptr nonnull @mutex)
  %7 = load atomic i32, ptr getelementptr inbounds (i8, ptr @region, i64 4) acquire, align 4
  %cmp.i = icmp eq i32 %7, %conv1
  br i1 %cmp.i, label %if.then.i, label %pool_sleep.exit

if.then.i:
  %call1.i74 = tail call i32 @pthread_cond_wait(ptr nonnull @condition, ptr nonnull @mutex)
  br label %pool_sleep.exit

pool_sleep.exit:
  %call2.i73 = tail call i32 @pthread_mutex_unlock(ptr nonnull @mutex)
  %8 = atomicrmw sub ptr @sleepers, i32 1 seq_cst, align 128
  br label %if.end48

if.end48:
  %last.4 = phi i32 [ %last.0.ph, %pool_sleep.exit ], [ %conv1, %if.end9 ], [ %conv1, %if.then16 ]
  store i64 0, ptr %patience, align 8
  br label %for.cond.outer
}

define internal fastcc zeroext i1 @spin(ptr %patience) nounwind {
entry:
  %time = alloca %struct.Time, align 8
  tail call void @pool_pause()
  %0 = load i64, ptr %patience, align 8
  %inc = add i64 %0, 1
  store i64 %inc, ptr %patience, align 8
  %rem = and i64 %0, 63
  %cmp.not = icmp eq i64 %rem, 0
  br i1 %cmp.not, label %if.end, label %cleanup8

if.end:
  %1 = load i32, ptr @pool_clock, align 4
  %call = call i32 @clock_gettime(i32 %1, ptr nonnull %time)
  %2 = load i64, ptr %time, align 8
  %mul = mul i64 %2, 1000000000
  %nanoseconds = getelementptr inbounds i8, ptr %time, i64 8
  %3 = load i64, ptr %nanoseconds, align 8
  %add = add i64 %mul, %3
  %cmp2 = icmp eq i64 %0, 0
  %since = getelementptr inbounds i8, ptr %patience, i64 8
  br i1 %cmp2, label %if.then3, label %if.end4

if.then3:
  store i64 %add, ptr %since, align 8
  br label %cleanup

if.end4:
  %4 = load i64, ptr %since, align 8
  %sub = sub i64 %add, %4
  %5 = load i64, ptr @pool_spin_ns, align 8
  %cmp6 = icmp ult i64 %sub, %5
  br label %cleanup

cleanup:
  %retval.0 = phi i1 [ true, %if.then3 ], [ %cmp6, %if.end4 ]
  br label %cleanup8

cleanup8:
  %retval.1 = phi i1 [ %retval.0, %cleanup ], [ true, %entry ]
  ret i1 %retval.1
}

declare hidden void @pool_at_fork(ptr)
declare hidden void @pool_pause()
declare i32 @atoi(ptr)
declare i32 @clock_gettime(i32, ptr)
declare i32 @llvm.smax.i32(i32, i32)
declare i32 @llvm.smin.i32(i32, i32)
declare i32 @llvm.umax.i32(i32, i32)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigdelset(ptr, i32)
declare i32 @sigfillset(ptr)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @sysconf(i32)
declare ptr @getenv(ptr)
declare void @llvm.memset.p0.i64(ptr writeonly, i8, i64, i1 immarg)
declare void @llvm.prefetch.p0(ptr readonly, i32 immarg, i32 immarg, i32 immarg)
