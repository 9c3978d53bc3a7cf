// Ctrl-C while native code runs.
//
// Python's own handler notes the signal and leaves the rest to the interpreter, which does not
// run meanwhile. This one, in front of it, also sets the variable that makes the code stop.

#include "types.h"

#define SIGINT 2

typedef void (*Handler)(int32 signal, void *info, void *context);
// Enough for a `struct sigaction` of any system. The handler's address is what it begins with, on
// all systems.
typedef struct {
  Handler handler;
  uint64 rest[63];
} Action;

int32 sigaction(int32 signal, const Action *action, Action *before);

// The variable of what the main thread runs, or ran last; null before.
int32 *volatile tcopt_watched = NULL;
// What was there before: at first, and the last time that somebody else's was found.
static Handler first, previous;
static int32 depth;

static void handle(int32 signal, void *info, void *context) {
  int32 *flag = tcopt_watched;
  if (flag != NULL)
    __atomic_store_n(flag, 1, __ATOMIC_RELAXED);
  // Who came after us may call us in turn: then the first one is next, so that there is an end.
  Handler next = __atomic_fetch_add(&depth, 1, __ATOMIC_RELAXED) != 0 ? first : previous;
  next(signal, info, context);
  __atomic_fetch_sub(&depth, 1, __ATOMIC_RELAXED);
}

// Puts the handler in front of the one that is there. 0 if there is none to call.
int32 tcopt_watch_interrupts(void) {
  Action action = {0};
  if (sigaction(SIGINT, NULL, &action) != 0)
    return 0;
  Handler present = action.handler;
  if (present == handle)
    return 1;
  // The default, which ends the process, and none at all.
  if ((uint64)present < 2)
    return 0;
  previous = present;
  if (first == NULL)
    first = present;
  action.handler = handle;
  return sigaction(SIGINT, &action, NULL) == 0;
}
