// What the parts of the pool need of each other and of the target.
//
// What systems number differently is a constant, and what processors and C libraries do differently
// a function, which `text.py` defines for a target.

#ifndef TCOPT_POOL_H
#define TCOPT_POOL_H

#include "types.h"

// How long a thread that waits looks for work before it sleeps, in nanoseconds.
HIDDEN extern const uint64 pool_spin_ns;
// The clock that only goes forward, for clock_gettime.
HIDDEN extern const int32 pool_clock;
// SIG_SETMASK.
HIDDEN extern const int32 pool_setmask;
// SIGBUS.
HIDDEN extern const int32 pool_sigbus;

// Lets the processor rest for a moment.
HIDDEN void pool_pause(void);
// Has a function called in the child of each fork.
HIDDEN void pool_at_fork(void (*child)(void));

// Sleeps while the word is `value`; may also return early.
static void pool_sleep(uint32 *word, uint32 value);
// Wakes up to `count` threads that sleep on the word, or more.
static void pool_wake(uint32 *word, int32 count);
// Makes ready to sleep; called before the first thread is created, and in the child of a fork.
static void pool_prepare_sleep(void);
// The number of cores that this process may use.
static int32 pool_cores(void);
// The core that this thread is on; less than 0 if the system does not say.
static int32 pool_core(void);
// Moves this thread to another core than that; whether that was possible.
static bool pool_leave(int32 core);

#endif
