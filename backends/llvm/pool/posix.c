// Sleeping without futexes: one condition variable for all threads.

// _SC_NPROCESSORS_ONLN.
HIDDEN extern const int32 pool_online;

// Large enough for a pthread_mutex_t and a pthread_cond_t on any system.
static uint64 mutex[16] __attribute__((aligned(64)));
static uint64 condition[16] __attribute__((aligned(64)));

int32 pthread_mutex_init(uint64 *mutex, const void *attributes);
int32 pthread_mutex_lock(uint64 *mutex);
int32 pthread_mutex_unlock(uint64 *mutex);
int32 pthread_cond_init(uint64 *condition, const void *attributes);
int32 pthread_cond_wait(uint64 *condition, uint64 *mutex);
int32 pthread_cond_broadcast(uint64 *condition);
int64 sysconf(int32 name);

static void pool_sleep(uint32 *word, uint32 value) {
  pthread_mutex_lock(mutex);
  if (__atomic_load_n(word, __ATOMIC_ACQUIRE) == value)
    pthread_cond_wait(condition, mutex);
  pthread_mutex_unlock(mutex);
}

static void pool_wake(uint32 *word, int32 count) {
  (void)word, (void)count;
  pthread_mutex_lock(mutex);
  pthread_cond_broadcast(condition);
  pthread_mutex_unlock(mutex);
}

static void pool_prepare_sleep(void) {
  pthread_mutex_init(mutex, NULL);
  pthread_cond_init(condition, NULL);
}

static int32 pool_cores(void) { return (int32)sysconf(pool_online); }

static int32 pool_core(void) { return -1; }

static bool pool_leave(int32 core) {
  (void)core;
  return 0;
}
