// Parallel loops of generated code: on the caller's threads, or on those of the pool.

#include "internal.h"

// Loads of generated code; the instance has the number.
HIDDEN int32_t tcopt_num_threads = 0;

// The instance that this thread runs. Parallel loops start on the thread of tcopt_run.
static PER_THREAD tcopt_instance *current;

tcopt_instance *begin_parallel(tcopt_instance *instance) {
  tcopt_instance *before = current;
  current = instance;
  return before;
}

void end_parallel(tcopt_instance *before) { current = before; }

#ifdef TCOPT_FREESTANDING
static void pool(tcopt_body body, void *argument, int64_t total, int64_t grain, int32_t threads) {
  (void)grain, (void)threads;
  body(argument, 0, total);
}
#else
// The pool, see backends/llvm/pool/pool.c.
HIDDEN void tcopt_pool_parallel(tcopt_body body, void *argument, int64_t total, int64_t grain,
                                int32_t threads);
#define pool tcopt_pool_parallel
#endif

HIDDEN void tcopt_parallel(tcopt_body body, void *argument, int64_t total, int64_t grain,
                           int32_t threads) {
  (void)threads;
  if (current->parallel_for != NULL)
    current->parallel_for(current->parallel_context, body, argument, total, grain);
  else if (current->threads == 1)
    body(argument, 0, total);
  else
    pool(body, argument, total, grain, current->threads);
}
