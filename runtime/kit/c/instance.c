// Instances: the memory of a run, its inputs and outputs, and the run itself.

#include "internal.h"

// The position of the next array in an instance's memory; the first pass only adds up sizes.
typedef struct {
  uint8_t *memory; // NULL in the first pass
  uint64_t used;
} Layout;

static void *place(Layout *layout, uint64_t count, uint64_t item_bytes) {
  void *data = layout->memory == NULL ? NULL : layout->memory + layout->used;
  layout->used += (count * item_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  return data;
}

static int64_t rounded(int64_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static int64_t check_bytes(const tcopt_descriptor *descriptor) {
  int64_t sum = 0;
  for (int32_t i = 0; i < descriptor->check_count; i++)
    sum += rounded(descriptor->checks[i].bytes);
  return sum;
}

// Lays out the arrays of an instance; returns their size.
static uint64_t lay_out(const tcopt_descriptor *d, const tcopt_level *level, uint8_t *memory,
                        tcopt_instance *instance) {
  Layout layout = {memory, 0};
  int32_t sizes = d->size_count + d->computed_count;
  place(&layout, 1, sizeof *instance);
  instance->inputs = (InputState *)place(&layout, (uint64_t)d->input_count, sizeof(InputState));
  instance->outputs = (OutputState *)place(&layout, (uint64_t)d->output_count, sizeof(OutputState));
  for (int32_t i = 0; i < d->input_count; i++) {
    int64_t *shape = (int64_t *)place(&layout, (uint64_t)d->inputs[i].rank, sizeof *shape);
    if (memory != NULL)
      instance->inputs[i] = (InputState){.shape = shape};
  }
  instance->given = (int64_t *)place(&layout, (uint64_t)sizes, sizeof(int64_t));
  instance->values = (int64_t *)place(&layout, (uint64_t)sizes, sizeof(int64_t));
  instance->keys = (int64_t *)place(&layout, (uint64_t)d->key_count, sizeof(int64_t));
  instance->computed = (int64_t *)place(&layout, (uint64_t)d->computed_count, sizeof(int64_t));
  instance->checks = (uint8_t *)place(&layout, (uint64_t)check_bytes(d), 1);
  int32_t arguments = d->input_count + d->key_count + d->output_count + d->computed_count +
                      d->check_count + d->size_count + 2;
  instance->arguments = (void **)place(&layout, (uint64_t)arguments, sizeof(void *));
  // At least one cache line, because no argument is null.
  instance->workspace = place(&layout, level->workspace_bytes + 1, 1);
  return layout.used;
}

HIDDEN uint64_t instance_bytes(const tcopt_descriptor *descriptor, const tcopt_level *level) {
  tcopt_instance unused;
  return lay_out(descriptor, level, NULL, &unused);
}

tcopt_status tcopt_instance_create(const tcopt_model *model, const tcopt_instance_options *options,
                                   tcopt_instance **result) {
  static const tcopt_instance_options usual = TCOPT_INSTANCE_OPTIONS;
  if (model == NULL || result == NULL)
    return fail(TCOPT_INVALID_ARGUMENT, "an instance is created from a model, not from NULL");
  *result = NULL;
  if (options == NULL)
    options = &usual;
  if (options->api_version != TCOPT_API_VERSION)
    return fail(TCOPT_WRONG_VERSION, "the program uses version %d of tcopt.h, the library is %d",
                (int64_t)options->api_version, (int64_t)TCOPT_API_VERSION);
  size_t bytes = (size_t)model->info.instance_bytes;
  if (options->threads < 0)
    return fail(TCOPT_INVALID_ARGUMENT, "an instance cannot have %d threads",
                (int64_t)options->threads);
  if (options->memory != NULL &&
      (options->memory_bytes < bytes || (uintptr_t)options->memory % ALIGNMENT != 0))
    return fail(TCOPT_INVALID_ARGUMENT,
                "the memory of an instance should have %d bytes, aligned to %d", (int64_t)bytes,
                (int64_t)ALIGNMENT);
  tcopt_allocator allocator =
      options->allocator.allocate != NULL ? options->allocator : model->allocator;
  void *memory = options->memory;
  if (memory == NULL)
    memory = allocator.allocate(allocator.context, bytes, ALIGNMENT);
  if (memory == NULL)
    return fail(TCOPT_OUT_OF_MEMORY, "there is no memory for an instance of %d bytes",
                (int64_t)bytes);
  tcopt_instance *instance = (tcopt_instance *)memory;
  *instance = (tcopt_instance){
      .model = model,
      .allocator = allocator,
      .owns_memory = options->memory == NULL,
      .bytes = bytes,
      .threads = options->threads != 0 ? options->threads : usual_threads(),
      .parallel_for = options->parallel_for,
      .parallel_context = options->parallel_context,
  };
  const tcopt_descriptor *descriptor = model->descriptor;
  lay_out(descriptor, model->level, (uint8_t *)memory, instance);
  for (int32_t i = 0; i < descriptor->output_count; i++)
    instance->outputs[i] = (OutputState){.data = NULL};
  for (int32_t i = 0; i < tcopt_size_count(model); i++)
    instance->given[i] = instance->values[i] = -1;
  *result = instance;
  return TCOPT_OK;
}

static void release_output(tcopt_instance *instance, OutputState *output) {
  if (output->own != NULL)
    instance->allocator.release(instance->allocator.context, output->own, output->own_bytes);
  output->own = NULL;
  output->own_bytes = 0;
}

void tcopt_instance_destroy(tcopt_instance *instance) {
  if (instance == NULL)
    return;
  for (int32_t i = 0; i < instance->model->descriptor->output_count; i++)
    release_output(instance, &instance->outputs[i]);
  if (instance->owns_memory)
    instance->allocator.release(instance->allocator.context, instance, instance->bytes);
}

tcopt_status tcopt_set_input(tcopt_instance *instance, int32_t index, const void *data,
                             const int64_t *shape) {
  const tcopt_tensor *tensor = tcopt_input(instance->model, index);
  if (tensor == NULL)
    return fail(TCOPT_INVALID_ARGUMENT, "the model has no input %d", (int64_t)index);
  if ((uintptr_t)data % (uintptr_t)tensor->item_bytes != 0)
    return fail(TCOPT_INVALID_ARGUMENT, "the array of input \"%s\" is not aligned to its elements",
                tensor->name);
  for (int32_t axis = 0; shape != NULL && axis < tensor->rank; axis++)
    if (shape[axis] < 0)
      return fail(TCOPT_INVALID_SHAPE, "dimension %d of input \"%s\" cannot be %d", (int64_t)axis,
                  tensor->name, shape[axis]);
  InputState *input = &instance->inputs[index];
  input->data = data;
  input->has_shape = shape != NULL;
  for (int32_t axis = 0; shape != NULL && axis < tensor->rank; axis++)
    input->shape[axis] = shape[axis];
  return TCOPT_OK;
}

tcopt_status tcopt_set_output(tcopt_instance *instance, int32_t index, void *data, size_t bytes) {
  const tcopt_tensor *tensor = tcopt_output(instance->model, index);
  if (tensor == NULL)
    return fail(TCOPT_INVALID_ARGUMENT, "the model has no output %d", (int64_t)index);
  if ((uintptr_t)data % (uintptr_t)tensor->item_bytes != 0)
    return fail(TCOPT_INVALID_ARGUMENT, "the array of output \"%s\" is not aligned to its elements",
                tensor->name);
  instance->outputs[index].data = data;
  instance->outputs[index].bytes = bytes;
  return TCOPT_OK;
}

tcopt_status tcopt_set_size(tcopt_instance *instance, int32_t index, int64_t value) {
  const tcopt_size *size = tcopt_size_at(instance->model, index);
  if (size == NULL || size->is_computed)
    return fail(TCOPT_INVALID_ARGUMENT, "the model has no size %d that can be set", (int64_t)index);
  instance->given[index] = value < 0 ? -1 : value;
  return TCOPT_OK;
}

void tcopt_set_seed(tcopt_instance *instance, uint64_t seed) {
  instance->has_seed = true;
  instance->seed = seed;
}

tcopt_status tcopt_prepare(tcopt_instance *instance) { return solve_sizes(instance); }

// The bytes of a tensor with the largest shape that the known sizes permit.
static size_t tensor_bytes(const tcopt_instance *instance, const tcopt_tensor *tensor) {
  size_t bytes = (size_t)tensor->item_bytes;
  for (int32_t axis = 0; axis < tensor->rank; axis++)
    bytes *= (size_t)extent_of(instance->model->descriptor, &tensor->shape[axis], instance->values)
                 .high;
  return bytes;
}

tcopt_status tcopt_output_shape(const tcopt_instance *instance, int32_t index, int64_t *shape) {
  const tcopt_tensor *tensor = tcopt_output(instance->model, index);
  if (tensor == NULL)
    return fail(TCOPT_INVALID_ARGUMENT, "the model has no output %d", (int64_t)index);
  for (int32_t axis = 0; axis < tensor->rank; axis++)
    shape[axis] =
        extent_of(instance->model->descriptor, &tensor->shape[axis], instance->values).high;
  return TCOPT_OK;
}

size_t tcopt_output_bytes(const tcopt_instance *instance, int32_t index) {
  const tcopt_tensor *tensor = tcopt_output(instance->model, index);
  return tensor == NULL ? 0 : tensor_bytes(instance, tensor);
}

void *tcopt_output_data(const tcopt_instance *instance, int32_t index) {
  return tcopt_output(instance->model, index) == NULL ? NULL : instance->outputs[index].last;
}

int64_t tcopt_size_value(const tcopt_instance *instance, int32_t index) {
  return tcopt_size_at(instance->model, index) == NULL ? -1 : instance->values[index];
}

// Sets the memory of an output that the code writes.
static tcopt_status provide_output(tcopt_instance *instance, int32_t index) {
  const tcopt_tensor *tensor = &instance->model->descriptor->outputs[index];
  OutputState *output = &instance->outputs[index];
  size_t bytes = tensor_bytes(instance, tensor);
  output->last = output->data;
  if (output->data != NULL) {
    if (output->bytes < bytes)
      return fail(TCOPT_INVALID_ARGUMENT, "output \"%s\" has memory of %d bytes, but needs %d",
                  tensor->name, (int64_t)output->bytes, (int64_t)bytes);
    return TCOPT_OK;
  }
  if (output->own == NULL || output->own_bytes < bytes) {
    release_output(instance, output);
    size_t size = (bytes / ALIGNMENT + 1) * ALIGNMENT;
    output->own = instance->allocator.allocate(instance->allocator.context, size, ALIGNMENT);
    if (output->own == NULL)
      return fail(TCOPT_OUT_OF_MEMORY, "there is no memory for output \"%s\" of %d bytes",
                  tensor->name, (int64_t)bytes);
    output->own_bytes = size;
  }
  output->last = output->own;
  return TCOPT_OK;
}

// Sets the arguments of inputs and outputs.
static tcopt_status bind_tensors(tcopt_instance *instance) {
  const tcopt_descriptor *descriptor = instance->model->descriptor;
  void **inputs = instance->arguments;
  void **outputs = inputs + descriptor->input_count + descriptor->key_count;
  for (int32_t i = 0; i < descriptor->input_count; i++) {
    inputs[i] = (void *)(uintptr_t)instance->inputs[i].data;
    if (inputs[i] == NULL) {
      if (tensor_bytes(instance, &descriptor->inputs[i]) != 0)
        return fail(TCOPT_INVALID_ARGUMENT, "input \"%s\" is not set", descriptor->inputs[i].name);
      inputs[i] = instance->workspace;
    }
  }
  for (int32_t i = 0; i < descriptor->output_count; i++) {
    int32_t source = descriptor->outputs[i].in_place_of;
    OutputState *output = &instance->outputs[i];
    if (source >= 0 && output->data == NULL) {
      output->last = inputs[source];
    } else {
      tcopt_status status = provide_output(instance, i);
      if (status != TCOPT_OK)
        return status;
      if (source >= 0 && output->last != inputs[source]) {
        __builtin_memcpy(output->last, inputs[source],
                         tensor_bytes(instance, &descriptor->inputs[source]));
        inputs[source] = output->last;
      }
    }
    outputs[i] = output->last;
  }
  for (int32_t i = 0; i < descriptor->key_count; i++) {
    instance->keys[i] = (int64_t)(instance->has_seed ? instance->seed : fresh_seed());
    inputs[descriptor->input_count + i] = &instance->keys[i];
  }
  return TCOPT_OK;
}

// Sets the arguments after the outputs.
static void bind_others(tcopt_instance *instance) {
  const tcopt_descriptor *descriptor = instance->model->descriptor;
  const tcopt_level *level = instance->model->level;
  void **next = instance->arguments + descriptor->input_count + descriptor->key_count +
                descriptor->output_count;
  for (int32_t i = 0; i < descriptor->computed_count; i++) {
    // The code may write fewer bytes than there are; little-endian numbers stay the same.
    instance->computed[i] = 0;
    *next++ = &instance->computed[i];
  }
  // The code writes fewer elements if sizes are smaller, or if the run is cancelled.
  __builtin_memset(instance->checks, 0, (size_t)check_bytes(descriptor));
  uint8_t *check = instance->checks;
  for (int32_t i = 0; i < descriptor->check_count; i++) {
    *next++ = check;
    check += rounded(descriptor->checks[i].bytes);
  }
  for (int32_t i = 0; i < descriptor->size_count; i++)
    *next++ = &instance->values[i];
  *next++ = (void *)(uintptr_t)(instance->model->weights + level->weights_offset);
  *next = instance->workspace;
}

static void lock(tcopt_state *state) {
  while (__atomic_exchange_n(&state->lock, 1, __ATOMIC_ACQUIRE) != 0) {
  }
}

static void unlock(tcopt_state *state) { __atomic_store_n(&state->lock, 0, __ATOMIC_RELEASE); }

// Runs the code. A failed allocation stops all runs of the model, because they share the variable;
// it is cleared when none of them is left that might miss it.
static tcopt_status call(tcopt_instance *instance) {
  tcopt_state *state = instance->model->descriptor->state;
  lock(state);
  state->running++;
  unlock(state);
  tcopt_instance *before = begin_parallel(instance);
  int64_t stopped = instance->model->level->run(instance->arguments);
  end_parallel(before);
  lock(state);
  state->running--;
  if (state->running == 0 && __atomic_load_n(state->stop, __ATOMIC_RELAXED) < 0)
    __atomic_store_n(state->stop, 0, __ATOMIC_RELAXED);
  unlock(state);
  if (stopped < 0)
    return fail(TCOPT_OUT_OF_MEMORY, "a kernel could not allocate %d KiB", -stopped);
  if (stopped > 0)
    return fail(TCOPT_CANCELLED, "the run was cancelled");
  return TCOPT_OK;
}

// Returns the failure of the first check that failed.
static tcopt_status test_checks(const tcopt_instance *instance) {
  const tcopt_descriptor *descriptor = instance->model->descriptor;
  const uint8_t *check = instance->checks;
  for (int32_t i = 0; i < descriptor->check_count; i++) {
    for (int64_t k = 0; k < descriptor->checks[i].bytes; k++)
      if (check[k] != 0)
        return fail(TCOPT_INVALID_DATA, "%s", descriptor->checks[i].message);
    check += rounded(descriptor->checks[i].bytes);
  }
  return TCOPT_OK;
}

tcopt_status tcopt_run(tcopt_instance *instance) {
  tcopt_status status = solve_sizes(instance);
  if (status == TCOPT_OK)
    status = bind_tensors(instance);
  if (status != TCOPT_OK)
    return status;
  bind_others(instance);
  status = call(instance);
  // Sizes are clamped to their ranges, so other checks may have failed because of them.
  if (status == TCOPT_OK)
    status = take_computed_sizes(instance);
  if (status == TCOPT_OK)
    status = test_checks(instance);
  return status;
}
