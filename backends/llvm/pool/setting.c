// The variables of one library, and the functions that set them.

#include "types.h"

// The number of threads; 0 is the default.
WEAK HIDDEN int32 tcopt_num_threads = 0;

WEAK void tcopt_set_threads(int32 number) {
  __atomic_store_n(&tcopt_num_threads, number, __ATOMIC_RELAXED);
}

// Nonzero if the current run of this library should end.
WEAK HIDDEN int32 tcopt_stop = 0;

// Ends the current run, whose entry point then returns the number. 0 lets the next run proceed.
WEAK void tcopt_cancel(int32 number) { __atomic_store_n(&tcopt_stop, number, __ATOMIC_RELAXED); }
