// Ctrl-C while native code runs.
//
// Python's own handler only records the signal for the interpreter, which does not run during
// native code. This handler runs before it and also sets the stop variable of the native code.

#include "types.h"

#define SIGINT 2

typedef void (*Handler)(int32 signal, void *info, void *context);
// Large enough for a `struct sigaction` on any system. It begins with the handler's address on all
// systems.
typedef struct {
  Handler handler;
  uint64 rest[63];
} Action;

int32 sigaction(int32 signal, const Action *action, Action *before);

// The stop variable of the code that the main thread runs, or ran last; initially null.
int32 *volatile tcopt_watched = NULL;
// The handlers before ours: the initial one, and the last foreign one that was found.
static Handler first, previous;
static int32 depth;

static void handle(int32 signal, void *info, void *context) {
  int32 *flag = tcopt_watched;
  if (flag != NULL)
    __atomic_store_n(flag, 1, __ATOMIC_RELAXED);
  // A handler installed after ours may call ours: call the first handler then, to end the
  // recursion.
  Handler next = __atomic_fetch_add(&depth, 1, __ATOMIC_RELAXED) != 0 ? first : previous;
  next(signal, info, context);
  __atomic_fetch_sub(&depth, 1, __ATOMIC_RELAXED);
}

// Installs the handler before the present one. Returns 0 if there is no handler to call.
int32 tcopt_watch_interrupts(void) {
  Action action = {0};
  if (sigaction(SIGINT, NULL, &action) != 0)
    return 0;
  Handler present = action.handler;
  if (present == handle)
    return 1;
  // The default handler, which ends the process, or no handler.
  if ((uint64)present < 2)
    return 0;
  previous = present;
  if (first == NULL)
    first = present;
  action.handler = handle;
  return sigaction(SIGINT, &action, NULL) == 0;
}
