// A pool of threads for parallel loops.
//
//   tcopt_parallel(fn, ctx, total, grain, threads)
//
// calls fn(ctx, begin, end) on ranges that cover [0, total) exactly once, each of at least `grain`
// iterations except at the end of a slot, and returns when all have run. threads = 0 selects the
// default: TCOPT_NUM_THREADS, or else the number of cores this process may use.
//
// Only one region is open at a time. A call while one is open, from another thread or from inside
// it, runs its iterations serially. The opener issues a ticket for each helper it wants; a worker
// takes part only if it claims a ticket while the region is open. The opener works too, then
// withdraws the remaining tickets and waits for the workers that joined. So a worker that the
// system does not schedule costs nothing.
//
// The iterations are divided into one slot per participant. A participant claims ranges from the
// front of its own slot, a quarter of the remainder each time, then from the back of the other
// slots. So successive loops find their data in the cache of the same core, and no thread waits
// while there is work.
//
// A worker that runs on the opener's core takes time from the opener, and some systems leave it
// there for long. So it moves to another core; if there is none, or it is moved back at once, it
// sleeps, longer each time, and regions run without it meanwhile.

#include "pool.h"

#ifdef POOL_LINUX
#include "linux.c"
#else
#include "posix.c"
#endif

#define MOST_THREADS 128
#define STACK_BYTES (8 << 20)
// Signal numbers that are the same on all systems.
#define SIGILL 4
#define SIGTRAP 5
#define SIGFPE 8
#define SIGSEGV 11
// The first and the longest sleep of a worker for which no core is free.
#define NAP_NS 200000
#define LONGEST_NAP_NS 4000000

typedef void (*Body)(void *ctx, int64 begin, int64 end);
// When spinning began, and how often `spin` has been called since.
typedef struct {
  uint64 calls;
  uint64 since;
} Patience;
typedef struct {
  int64 seconds;
  int64 nanoseconds;
} Time;

char *getenv(const char *name);
int32 atoi(const char *text);
int32 clock_gettime(int32 clock, Time *time);
int32 nanosleep(const Time *time, Time *left);
int32 sigfillset(uint64 *signals);
int32 sigdelset(uint64 *signals, int32 number);
int32 pthread_sigmask(int32 how, const uint64 *signals, uint64 *before);
int32 pthread_create(void **thread, const uint64 *attributes, void *(*start)(void *), void *argument);
int32 pthread_detach(void *thread);
int32 pthread_attr_init(uint64 *attributes);
int32 pthread_attr_setstacksize(uint64 *attributes, uint64 bytes);
int32 pthread_attr_destroy(uint64 *attributes);

// The state and the open region, in one cache line, because a line that another core has written
// takes hundreds of cycles to load.
static struct LINE {
  // Bits 0-14: number of workers inside the region. Bit 15: the opener sleeps until they have left.
  // Bits 16-31: number of tickets. Bits 32-63: the region's number.
  uint64 state;
  Body fn;
  void *ctx;
  uint64 grain;
  uint32 slots;
  // The core of the opener; negative if unknown.
  int32 core;
} region;

#define INSIDE 0x7fffu
#define AWAITED 0x8000u
#define TICKET 0x10000u
#define NUMBER_SHIFT 32

// The remainder of each slot: begin in bits 0-31, end in bits 32-63. One cache line each.
static struct LINE {
  uint64 range;
} slots[MOST_THREADS];
// 1 while a region is open.
static uint32 owner LINE;
// Number of workers that sleep or are about to.
static int32 sleepers LINE;
// Number of threads created, and the maximum. Modified by the owner only.
static int32 workers LINE;
static int32 limit = MOST_THREADS - 1;
static bool registered;
static int32 usual_threads;

static int32 least(int32 a, int32 b) { return a < b ? a : b; }

// The half of the state with the region's number, on which workers sleep.
static uint32 *number_word(void) { return (uint32 *)&region.state + 1; }

// The other half of the state, on which the opener sleeps.
static uint32 *count_word(void) { return (uint32 *)&region.state; }

// Pauses; returns false after the maximum spinning time. The duration of the processor's pause
// instruction differs by a factor of 30 between models, so a clock is read now and then.
static __attribute__((noinline)) bool spin(Patience *patience) {
  pool_pause();
  uint64 calls = patience->calls++;
  if (calls % 64 != 0)
    return 1;
  Time time;
  clock_gettime(pool_clock, &time);
  uint64 now = (uint64)time.seconds * 1000000000 + (uint64)time.nanoseconds;
  if (calls == 0) {
    patience->since = now;
    return 1;
  }
  return now - patience->since < pool_spin_ns;
}

// Whether this thread is on the core of the thread that opened the last region.
static bool on_openers_core(void) {
  int32 core = pool_core();
  return core >= 0 && core == __atomic_load_n(&region.core, __ATOMIC_RELAXED);
}

// Frees the opener's core. `before` is the result of the previous call since this worker took part
// in a region, 0 for the first call: how long to sleep before it tries to move.
static __attribute__((noinline)) int64 leave(int64 before) {
  if (before == 0 && pool_leave(__atomic_load_n(&region.core, __ATOMIC_RELAXED)))
    return NAP_NS;
  Time time = {0, before == 0 ? NAP_NS : before};
  nanosleep(&time, NULL);
  if (on_openers_core())
    pool_leave(__atomic_load_n(&region.core, __ATOMIC_RELAXED));
  return time.nanoseconds < LONGEST_NAP_NS / 2 ? 2 * time.nanoseconds : LONGEST_NAP_NS;
}

// Runs ranges of the open region until all slots are empty.
static __attribute__((noinline)) void work(uint32 home) {
  Body fn = region.fn;
  void *ctx = region.ctx;
  uint64 grain = region.grain;
  uint32 count = region.slots;
  uint32 slot = home;
  for (uint32 visited = 0; visited != count;) {
    uint64 *place = &slots[slot].range;
    uint64 range = __atomic_load_n(place, __ATOMIC_RELAXED);
    for (;;) {
      uint64 begin = (uint32)range, end = range >> 32, left = end - begin;
      if (left == 0) {
        slot = slot + 1 == count ? 0 : slot + 1;
        visited++;
        break;
      }
      uint64 size = left / 4 > grain ? left / 4 : grain;
      size = size < left ? size : left;
      bool own = slot == home;
      uint64 rest = own ? range + size : range - (size << 32);
      if (!__atomic_compare_exchange_n(place, &range, rest, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
      uint64 from = own ? begin : end - size;
      fn(ctx, (int64)from, (int64)(from + size));
      range = __atomic_load_n(place, __ATOMIC_RELAXED);
    }
  }
}

// Main loop of worker `self`, numbered from 1: take part in regions, spin for a while, sleep.
static void *worker(void *self) {
  uint32 number = (uint32)(uint64)self;
  uint32 last = -1u;
  Patience patience = {0, 0};
  int64 nap_ns = 0;
  for (;;) {
    uint64 state = __atomic_load_n(&region.state, __ATOMIC_ACQUIRE);
    uint32 now = (uint32)(state >> NUMBER_SHIFT);
    uint32 tickets = (uint32)state / TICKET;
    if (tickets != 0 && now != last) {
      if (on_openers_core()) {
        nap_ns = leave(nap_ns);
        continue;
      }
      nap_ns = 0;
      // Prefetch the slot that this worker will probably use.
      __builtin_prefetch(&slots[number].range, 1, 3);
      uint64 entered = state - TICKET + 1;
      if (!__atomic_compare_exchange_n(&region.state, &state, entered, 0, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED))
        continue;
      // Use the same slot each time if there is one for this worker, else that of the ticket.
      work(number < region.slots ? number : tickets);
      uint64 before = __atomic_fetch_sub(&region.state, 1, __ATOMIC_ACQ_REL);
      if ((before & (INSIDE | AWAITED)) == (AWAITED | 1))
        pool_wake(count_word(), 1);
      last = now;
    } else {
      bool in_the_way = patience.calls % 64 == 0 && on_openers_core();
      if (in_the_way && now != last) {
        // A region was missed, and the next may follow at once: do not let it wake this worker.
        last = now;
        nap_ns = leave(nap_ns);
      } else if (!in_the_way && spin(&patience)) {
        continue;
      } else {
        __atomic_fetch_add(&sleepers, 1, __ATOMIC_SEQ_CST);
        pool_sleep(number_word(), now);
        __atomic_fetch_sub(&sleepers, 1, __ATOMIC_SEQ_CST);
      }
    }
    patience.calls = 0;
  }
}

// In the child of a fork there are no workers and no open region.
static void forked(void) {
  workers = 0;
  __atomic_store_n(&sleepers, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&region.state, 0, __ATOMIC_RELAXED);
  pool_prepare_sleep();
  __atomic_store_n(&owner, 0, __ATOMIC_RELEASE);
}

// Creates threads until there are `wanted` and returns the number of threads. They block all
// signals except those of their own faults.
static __attribute__((noinline)) int32 grow(int32 wanted) {
  if (!registered) {
    pool_prepare_sleep();
    pool_at_fork(forked);
    registered = 1;
  }
  // Large enough for a pthread_attr_t and a sigset_t on any system.
  _Alignas(16) uint64 attributes[32];
  _Alignas(16) uint64 every[16], before[16];
  sigfillset(every);
  // A fault whose signal is blocked would end the process before a handler can report it.
  const int32 faults[] = {SIGILL, SIGTRAP, SIGFPE, pool_sigbus, SIGSEGV};
  for (uint32 i = 0; i < sizeof faults / sizeof *faults; i++)
    sigdelset(every, faults[i]);
  pthread_sigmask(pool_setmask, every, before);
  pthread_attr_init(attributes);
  pthread_attr_setstacksize(attributes, STACK_BYTES);
  while (workers < wanted) {
    void *thread;
    void *number = (void *)(uint64)(workers + 1);
    if (pthread_create(&thread, attributes, worker, number) != 0) {
      // The system refuses more threads, so do not ask again.
      limit = workers;
      break;
    }
    pthread_detach(thread);
    workers++;
  }
  pthread_attr_destroy(attributes);
  pthread_sigmask(pool_setmask, before, NULL);
  return workers;
}

// The default number of threads.
static __attribute__((noinline)) int32 default_threads(void) {
  int32 known = __atomic_load_n(&usual_threads, __ATOMIC_RELAXED);
  if (known != 0)
    return known;
  const char *text = getenv("TCOPT_NUM_THREADS");
  int32 number = text == NULL ? 0 : atoi(text);
  if (number <= 0)
    number = pool_cores();
  if (number < 1)
    number = 1;
  __atomic_store_n(&usual_threads, number, __ATOMIC_RELAXED);
  return number;
}

// Waits until the workers that joined have left.
static void await(uint64 state) {
  Patience patience = {0, 0};
  while ((state & INSIDE) != 0) {
    if (!spin(&patience)) {
      state = __atomic_fetch_or(&region.state, AWAITED, __ATOMIC_ACQ_REL);
      if ((state & INSIDE) == 0)
        return;
      pool_sleep(count_word(), (uint32)(state | AWAITED));
      patience.calls = 0;
    }
    state = __atomic_load_n(&region.state, __ATOMIC_ACQUIRE);
  }
}

// Divides the iterations into slots of nearly equal size.
static void fill(uint32 total, uint32 count) {
  uint32 share = total / count, rest = total % count, from = 0;
  for (uint32 i = 0; i < count; i++) {
    uint32 to = from + share + (i < rest);
    __atomic_store_n(&slots[i].range, (uint64)to << 32 | from, __ATOMIC_RELAXED);
    from = to;
  }
}

void tcopt_parallel(Body fn, void *ctx, int64 total, int64 grain, int32 threads) {
  if (threads <= 0)
    threads = default_threads();
  threads = least(threads, MOST_THREADS);
  uint64 pieces = ((uint64)total + (uint64)grain - 1) / (uint64)grain;
  int32 participants = pieces < (uint64)threads ? (int32)pieces : threads;
  uint32 closed = 0;
  if (participants < 2 || (uint64)total >> 31 != 0 ||
      !__atomic_compare_exchange_n(&owner, &closed, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
    fn(ctx, 0, total);
    return;
  }
  int32 allowed = least(participants - 1, limit);
  int32 present = workers < allowed ? grow(allowed) : workers;
  int32 helpers = least(allowed, present);
  if (helpers == 0) {
    __atomic_store_n(&owner, 0, __ATOMIC_RELEASE);
    fn(ctx, 0, total);
    return;
  }
  region.fn = fn;
  region.ctx = ctx;
  region.grain = (uint64)grain;
  region.slots = (uint32)helpers + 1;
  __atomic_store_n(&region.core, pool_core(), __ATOMIC_RELAXED);
  fill((uint32)total, (uint32)helpers + 1);
  uint64 number = (__atomic_load_n(&region.state, __ATOMIC_RELAXED) >> NUMBER_SHIFT) + 1;
  uint64 opened = number << NUMBER_SHIFT | (uint64)helpers * TICKET;
  // Either this thread sees the worker in `sleepers`, or the worker sees the new number.
  __atomic_exchange_n(&region.state, opened, __ATOMIC_SEQ_CST);
  int32 asleep = helpers - (present - __atomic_load_n(&sleepers, __ATOMIC_SEQ_CST));
  if (asleep > 0)
    pool_wake(number_word(), asleep);
  work(0);
  // Withdraw the remaining tickets.
  await(__atomic_fetch_and(&region.state, ~(uint64)(0xffffu * TICKET), __ATOMIC_ACQ_REL));
  __atomic_store_n(&owner, 0, __ATOMIC_RELEASE);
}
