// Data shared by the files of the runtime, and the constant data that is generated for a model.

#ifndef TCOPT_INTERNAL_H
#define TCOPT_INTERNAL_H

#include <stdbool.h>

#include "tcopt.h"

// The version of `tcopt_descriptor` and of the weights image.
#define TCOPT_FORMAT_VERSION 1
#define ALIGNMENT 64
#define DIGEST_BYTES 32
// Maximum rank of a tensor.
#define MOST_DIMENSIONS 64

#define HIDDEN __attribute__((visibility("hidden")))

#ifdef TCOPT_FREESTANDING
// Without a C library there are no threads, and one run at a time.
#define PER_THREAD
#else
#define PER_THREAD _Thread_local
#endif

// Formulas are sequences of these operations on a stack, in reverse Polish notation.
enum {
  FORMULA_END,
  FORMULA_NUMBER, // an operand follows
  FORMULA_SIZE,   // the index of a size follows: its value divided by its multiple
  FORMULA_ADD,
  FORMULA_MULTIPLY,
  FORMULA_DIVIDE, // rounded down; a positive divisor follows
  FORMULA_MINIMUM,
  FORMULA_MAXIMUM,
};

// An extent of an input that determines a size: factor * (size / multiple) + rest.
typedef struct {
  int32_t input, axis, size;
  const int64_t *factor, *rest;
} tcopt_equation;

// Bytes that are nonzero if the data was invalid for an operator.
typedef struct {
  const char *message;
  int64_t bytes;
} tcopt_check;

// One bit that a CPU reports: of CPUID's result on x86, of HWCAP on Arm.
typedef struct {
  const char *name;
  uint32_t leaf, subleaf, part, bit;
} tcopt_feature;

// The code for one kind of CPU.
typedef struct {
  const char *cpu;
  const tcopt_feature *features;
  int32_t feature_count;
  int32_t (*run)(void **arguments);
  uint64_t weights_offset, weights_bytes, workspace_bytes;
  uint8_t digest[DIGEST_BYTES];
} tcopt_level;

// The mutable data of a model, shared by all its instances.
typedef struct {
  int32_t *stop; // nonzero if runs should end; -N if an allocation of N KiB failed
  int32_t lock;
  int32_t running;
} tcopt_state;

struct tcopt_descriptor {
  uint32_t format_version;
  const char *name, *producer, *producer_version;
  int32_t input_count, output_count, key_count, check_count, equation_count, level_count;
  // Sizes that follow from shapes, and those that a run computes after them.
  int32_t size_count, computed_count;
  const tcopt_tensor *inputs, *outputs;
  const tcopt_size *sizes;
  const int32_t *is_checked; // whether a run checks the range of each computed size
  const tcopt_equation *equations;
  const tcopt_check *checks;
  const tcopt_level *levels; // the best first
  const uint8_t *weights;    // the weights image; NULL if it is not in the library
  uint64_t weights_bytes;
  uint8_t digest[DIGEST_BYTES];
  tcopt_state *state;
};

struct tcopt_model {
  const tcopt_descriptor *descriptor;
  const tcopt_level *level;
  const uint8_t *weights;
  void *mapped; // NULL if no file is mapped
  size_t mapped_bytes;
  tcopt_allocator allocator;
  tcopt_info info;
  char digest_text[2 * DIGEST_BYTES + 1];
};

typedef struct {
  const void *data;
  bool has_shape;
  int64_t *shape;
} InputState;

typedef struct {
  void *data; // of the caller
  size_t bytes;
  void *own;
  size_t own_bytes;
  void *last; // of the last run
} OutputState;

struct tcopt_instance {
  const tcopt_model *model;
  tcopt_allocator allocator;
  bool owns_memory;
  size_t bytes;
  int32_t threads;
  tcopt_parallel_for parallel_for;
  void *parallel_context;
  bool has_seed;
  uint64_t seed;
  InputState *inputs;
  OutputState *outputs;
  int64_t *given;  // sizes set by the caller; -1 if unset
  int64_t *values; // the value of each size; -1 if unknown
  int64_t *keys;
  int64_t *computed; // by the last run
  uint8_t *checks;
  void **arguments;
  void *workspace;
};

typedef struct {
  int64_t low, high;
} Interval;

// message.c: sets the last error, from a format with %s and %d (an int64_t) only.
HIDDEN tcopt_status fail(tcopt_status status, const char *format, ...);
HIDDEN bool equal_text(const char *a, const char *b);

// sizes.c
HIDDEN Interval evaluate(const tcopt_descriptor *descriptor, const int64_t *formula,
                         const int64_t *values);
HIDDEN Interval extent_of(const tcopt_descriptor *descriptor, const tcopt_extent *extent,
                          const int64_t *values);
HIDDEN tcopt_status solve_sizes(tcopt_instance *instance);
HIDDEN tcopt_status take_computed_sizes(tcopt_instance *instance);

// weights.c
HIDDEN tcopt_status check_weights(const tcopt_descriptor *descriptor, const tcopt_level *level,
                                  const uint8_t *image, uint64_t bytes, bool is_trusted);
HIDDEN void digest_of(const uint8_t *data, uint64_t bytes, uint8_t digest[DIGEST_BYTES]);

// system.c
HIDDEN tcopt_status map_file(const char *path, void **data, size_t *bytes);
HIDDEN void unmap_file(void *data, size_t bytes);
HIDDEN tcopt_allocator usual_allocator(void);
HIDDEN uint64_t fresh_seed(void);
// The number of threads if the container has fewer CPUs than the machine has cores; 0 is the pool's
// own choice.
HIDDEN int32_t usual_threads(void);

// cpu.c: the first feature that this CPU lacks; NULL if it has all.
HIDDEN const char *missing_feature(const tcopt_level *level);
// Whether this CPU has instructions for SHA-256. The answer is kept.
HIDDEN bool has_sha256(void);

// threads.c
HIDDEN tcopt_instance *begin_parallel(tcopt_instance *instance);
HIDDEN void end_parallel(tcopt_instance *before);

#endif
