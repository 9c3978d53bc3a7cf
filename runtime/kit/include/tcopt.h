/* C API of compiled models.
 *
 * A kit is a library with the code of one model, its weights, and this runtime:
 *
 *   #include "squeezenet.h"
 *   tcopt_model *model;
 *   tcopt_instance *instance;
 *   tcopt_model_create(tcopt_descriptor_squeezenet(), NULL, &model);
 *   tcopt_instance_create(model, NULL, &instance);
 *   tcopt_set_input(instance, 0, pixels, NULL);
 *   tcopt_set_output(instance, 0, scores, sizeof scores);
 *   if (tcopt_run(instance) != TCOPT_OK)
 *     puts(tcopt_last_error());
 *
 * A model is immutable: any number of threads and instances may use it at the same time. An
 * instance has the memory of one run at a time. Functions that can fail return a status;
 * tcopt_last_error() has the message. Arrays are dense, in row-major order.
 */
#ifndef TCOPT_H
#define TCOPT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. It changes if existing programs have to be compiled again. */
#define TCOPT_API_VERSION 1

#define TCOPT_API __attribute__((visibility("default")))

typedef enum tcopt_status {
  TCOPT_OK = 0,
  TCOPT_INVALID_ARGUMENT = 1, /* an index, name or pointer that is not valid */
  TCOPT_INVALID_SHAPE = 2,    /* a shape or size that the model is not compiled for */
  TCOPT_INVALID_DATA = 3,     /* data that an operator rejects, such as an index out of bounds */
  TCOPT_OUT_OF_MEMORY = 4,
  TCOPT_CANCELLED = 5,        /* see tcopt_model_cancel */
  TCOPT_WRONG_CPU = 6,        /* the library has no code for this CPU */
  TCOPT_WRONG_VERSION = 7,    /* program, library or weights are of different versions */
  TCOPT_WRONG_WEIGHTS = 8,    /* truncated or altered weights, or those of another model */
  TCOPT_IO_ERROR = 9          /* a file cannot be read */
} tcopt_status;

/* Element types, with the numbers of ONNX's TensorProto.DataType. Types of less than 8 bits have
 * one element in each byte. */
typedef enum tcopt_dtype {
  TCOPT_FLOAT32 = 1,
  TCOPT_UINT8 = 2,
  TCOPT_INT8 = 3,
  TCOPT_UINT16 = 4,
  TCOPT_INT16 = 5,
  TCOPT_INT32 = 6,
  TCOPT_INT64 = 7,
  TCOPT_BOOL = 9,
  TCOPT_FLOAT16 = 10,
  TCOPT_FLOAT64 = 11,
  TCOPT_UINT32 = 12,
  TCOPT_UINT64 = 13,
  TCOPT_COMPLEX64 = 14,
  TCOPT_COMPLEX128 = 15,
  TCOPT_BFLOAT16 = 16,
  TCOPT_FLOAT8E4M3FN = 17,
  TCOPT_FLOAT8E4M3FNUZ = 18,
  TCOPT_FLOAT8E5M2 = 19,
  TCOPT_FLOAT8E5M2FNUZ = 20,
  TCOPT_UINT4 = 21,
  TCOPT_INT4 = 22,
  TCOPT_FLOAT4E2M1 = 23,
  TCOPT_FLOAT8E8M0 = 24,
  TCOPT_UINT2 = 25,
  TCOPT_INT2 = 26
} tcopt_dtype;

/* One dimension of a tensor: a number if low == high, else a formula of sizes with a range. */
typedef struct tcopt_extent {
  int64_t low, high;
  const char *text;       /* such as "2 * batch"; NULL for a number */
  const int64_t *formula; /* internal */
} tcopt_extent;

typedef struct tcopt_tensor {
  const char *name;
  tcopt_dtype dtype;
  int32_t item_bytes;
  int32_t rank;
  const tcopt_extent *shape;
  int32_t in_place_of; /* of an output: the input that it overwrites; -1 if none */
} tcopt_tensor;

/* A named size in shapes: a multiple of `multiple` from low to high. */
typedef struct tcopt_size {
  const char *name;
  int64_t low, high, multiple;
  int32_t is_computed; /* whether a run computes it from data */
} tcopt_size;

typedef struct tcopt_info {
  const char *name;
  const char *producer;
  const char *producer_version;
  const char *weights_digest; /* 64 hexadecimal digits */
  const char *cpu_level;      /* the CPU whose code was chosen, such as "haswell" */
  uint32_t format_version;    /* of the library and the weights */
  uint64_t weights_bytes;     /* of the weights image */
  uint64_t instance_bytes;    /* memory of an instance without its outputs */
} tcopt_info;

/* The constant data of a model; NAME.h declares the function that returns it. */
typedef struct tcopt_descriptor tcopt_descriptor;
typedef struct tcopt_model tcopt_model;
typedef struct tcopt_instance tcopt_instance;

/* Memory from the caller. `allocate` returns NULL if there is none. */
typedef struct tcopt_allocator {
  void *(*allocate)(void *context, size_t bytes, size_t alignment);
  void (*release)(void *context, void *memory, size_t bytes);
  void *context;
} tcopt_allocator;

/* Iterations [begin, end) of a parallel loop. */
typedef void (*tcopt_body)(void *argument, int64_t begin, int64_t end);

/* Runs a parallel loop on threads of the caller: calls body(argument, ...) on ranges that cover
 * [0, total) exactly once, each preferably of at least `grain` iterations, and returns when all of
 * them have returned. */
typedef void (*tcopt_parallel_for)(void *context, tcopt_body body, void *argument, int64_t total,
                                   int64_t grain);

/* Trust the weights: do not compare them with their digest. */
#define TCOPT_SKIP_DIGEST 1u

typedef struct tcopt_model_options {
  uint32_t api_version; /* TCOPT_API_VERSION */
  uint32_t flags;
  /* The weights: a file to map into memory, or the content of that file in memory, aligned to 64
   * bytes and valid as long as the model; by default those in the library. */
  const char *weights_path;
  const void *weights;
  size_t weights_bytes;
  /* Use the code for this CPU instead of the best one. */
  const char *cpu_level;
  tcopt_allocator allocator;
} tcopt_model_options;

typedef struct tcopt_instance_options {
  uint32_t api_version; /* TCOPT_API_VERSION */
  /* Threads of the library's pool; 0 is the number in TCOPT_NUM_THREADS, or else one for each core
   * that the process may use, within the quota of its container. */
  int32_t threads;
  /* Threads of the caller instead of the pool's. */
  tcopt_parallel_for parallel_for;
  void *parallel_context;
  /* Memory for the instance: tcopt_info.instance_bytes bytes, aligned to 64. */
  void *memory;
  size_t memory_bytes;
  tcopt_allocator allocator;
} tcopt_instance_options;

#define TCOPT_MODEL_OPTIONS {TCOPT_API_VERSION, 0, NULL, NULL, 0, NULL, {NULL, NULL, NULL}}
#define TCOPT_INSTANCE_OPTIONS {TCOPT_API_VERSION, 0, NULL, NULL, NULL, 0, {NULL, NULL, NULL}}

/* The version that the library was compiled with. */
TCOPT_API uint32_t tcopt_api_version(void);
/* The message of the last error on this thread; empty if there was none. */
TCOPT_API const char *tcopt_last_error(void);
TCOPT_API const char *tcopt_status_name(tcopt_status status);

/* Chooses the code for this CPU and checks the weights. Options may be NULL. */
TCOPT_API tcopt_status tcopt_model_create(const tcopt_descriptor *descriptor,
                                          const tcopt_model_options *options, tcopt_model **model);
/* Call it after the model's instances are destroyed. NULL is ignored. */
TCOPT_API void tcopt_model_destroy(tcopt_model *model);
TCOPT_API const tcopt_info *tcopt_model_info(const tcopt_model *model);

TCOPT_API int32_t tcopt_input_count(const tcopt_model *model);
TCOPT_API int32_t tcopt_output_count(const tcopt_model *model);
TCOPT_API int32_t tcopt_size_count(const tcopt_model *model);
/* NULL if there is none with this index. */
TCOPT_API const tcopt_tensor *tcopt_input(const tcopt_model *model, int32_t index);
TCOPT_API const tcopt_tensor *tcopt_output(const tcopt_model *model, int32_t index);
TCOPT_API const tcopt_size *tcopt_size_at(const tcopt_model *model, int32_t index);
/* -1 if there is none with this name. */
TCOPT_API int32_t tcopt_input_index(const tcopt_model *model, const char *name);
TCOPT_API int32_t tcopt_output_index(const tcopt_model *model, const char *name);
TCOPT_API int32_t tcopt_size_index(const tcopt_model *model, const char *name);

/* Ends the runs of all instances with TCOPT_CANCELLED, until it is called with 0. */
TCOPT_API void tcopt_model_cancel(const tcopt_model *model, int32_t is_cancelled);

TCOPT_API tcopt_status tcopt_instance_create(const tcopt_model *model,
                                             const tcopt_instance_options *options,
                                             tcopt_instance **instance);
TCOPT_API void tcopt_instance_destroy(tcopt_instance *instance);

/* Sets an input's array, which is read by each run until another one is set, and its shape; NULL is
 * the shape that follows from the sizes. An input that an output overwrites has to be writable. */
TCOPT_API tcopt_status tcopt_set_input(tcopt_instance *instance, int32_t index, const void *data,
                                       const int64_t *shape);
/* Sets the memory of an output, which must not overlap other arrays. With NULL, the instance
 * provides the memory, valid until it is destroyed or runs again; a result that overwrites an input
 * is then in the input's array, else the input is copied first. */
TCOPT_API tcopt_status tcopt_set_output(tcopt_instance *instance, int32_t index, void *data,
                                        size_t bytes);
/* Sets a size. It is needed only if no shape of an input determines it. -1 unsets it. */
TCOPT_API tcopt_status tcopt_set_size(tcopt_instance *instance, int32_t index, int64_t value);
/* Sets the seed of random operators. Without one, each run draws other numbers. */
TCOPT_API void tcopt_set_seed(tcopt_instance *instance, uint64_t seed);

/* Computes the sizes from the inputs' shapes, so that tcopt_output_shape is known before a run. */
TCOPT_API tcopt_status tcopt_prepare(tcopt_instance *instance);
TCOPT_API tcopt_status tcopt_run(tcopt_instance *instance);

/* The shape of an output after tcopt_run. After tcopt_prepare, an extent that depends on data is
 * the largest possible one. `shape` has room for the tensor's rank. */
TCOPT_API tcopt_status tcopt_output_shape(const tcopt_instance *instance, int32_t index,
                                          int64_t *shape);
/* The bytes of an output of that shape. */
TCOPT_API size_t tcopt_output_bytes(const tcopt_instance *instance, int32_t index);
/* The array of an output after tcopt_run. */
TCOPT_API void *tcopt_output_data(const tcopt_instance *instance, int32_t index);
/* The value of a size after tcopt_run; -1 if it is unknown. */
TCOPT_API int64_t tcopt_size_value(const tcopt_instance *instance, int32_t index);

#ifdef __cplusplus
}
#endif
#endif
