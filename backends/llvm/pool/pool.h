// Interfaces between the parts of the pool, and to the target.
//
// System-specific numbers are constants, and operations that differ between processors and C
// libraries are functions; `text.py` defines both for a target.

#ifndef TCOPT_POOL_H
#define TCOPT_POOL_H

#include "types.h"

// How long an idle thread spins before it sleeps, in nanoseconds.
HIDDEN extern const uint64 pool_spin_ns;
// The number of the monotonic clock, for clock_gettime.
HIDDEN extern const int32 pool_clock;
// SIG_SETMASK.
HIDDEN extern const int32 pool_setmask;
// SIGBUS.
HIDDEN extern const int32 pool_sigbus;

// Pauses the processor for a moment.
HIDDEN void pool_pause(void);
// Registers a function to be called in the child of each fork.
HIDDEN void pool_at_fork(void (*child)(void));

// Sleeps while the word is `value`; may return early.
static void pool_sleep(uint32 *word, uint32 value);
// Wakes at least `count` threads that sleep on the word, if there are as many.
static void pool_wake(uint32 *word, int32 count);
// Initialises sleeping; called before the first thread is created, and in the child of a fork.
static void pool_prepare_sleep(void);
// The number of cores that this process may use.
static int32 pool_cores(void);
// The core that this thread is on; negative if unknown.
static int32 pool_core(void);
// Moves this thread to a core other than `core`; returns whether that was possible.
static bool pool_leave(int32 core);

#endif
