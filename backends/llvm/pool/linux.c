// Sleeping on Linux, with process-private futexes.

// The system call number of futex.
HIDDEN extern const int64 pool_futex;

#define FUTEX_WAIT_PRIVATE 128
#define FUTEX_WAKE_PRIVATE 129
#define MASK_WORDS 16

int64 syscall(int64 number, ...);
int32 sched_getcpu(void);
int32 sched_getaffinity(int32 process, uint64 bytes, uint64 *mask);
int32 sched_setaffinity(int32 process, uint64 bytes, const uint64 *mask);

static void pool_sleep(uint32 *word, uint32 value) {
  syscall(pool_futex, word, FUTEX_WAIT_PRIVATE, value, NULL);
}

static void pool_wake(uint32 *word, int32 count) {
  syscall(pool_futex, word, FUTEX_WAKE_PRIVATE, count);
}

static void pool_prepare_sleep(void) {}

static __attribute__((noinline)) int32 pool_cores(void) {
  uint64 mask[MASK_WORDS] = {0};
  sched_getaffinity(0, sizeof mask, mask);
  int32 cores = 0;
  for (int32 i = 0; i < MASK_WORDS; i++)
    cores += __builtin_popcountll(mask[i]);
  return cores;
}

static int32 pool_core(void) { return sched_getcpu(); }

static __attribute__((noinline)) bool pool_leave(int32 core) {
  uint64 usual[MASK_WORDS] = {0}, others[MASK_WORDS];
  sched_getaffinity(0, sizeof usual, usual);
  for (int32 i = 0; i < MASK_WORDS; i++)
    others[i] = usual[i];
  if (core < 0 || core >= 64 * MASK_WORDS)
    return 0;
  others[core / 64] &= ~((uint64)1 << core % 64);
  // The call fails if no core is left.
  if (sched_setaffinity(0, sizeof others, others) != 0)
    return 0;
  sched_setaffinity(0, sizeof usual, usual);
  return 1;
}
