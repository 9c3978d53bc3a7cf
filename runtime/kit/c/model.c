// Models: the code for this CPU, the weights, and facts about inputs, outputs and sizes.

#include "internal.h"

// Bytes of an instance, see `tcopt_instance_create`.
HIDDEN uint64_t instance_bytes(const tcopt_descriptor *descriptor, const tcopt_level *level);

static tcopt_status choose_level(const tcopt_descriptor *descriptor, const char *wanted,
                                 const tcopt_level **level) {
  const char *lacks = NULL;
  for (int32_t i = 0; i < descriptor->level_count; i++) {
    const tcopt_level *each = &descriptor->levels[i];
    if (wanted != NULL && !equal_text(wanted, each->cpu))
      continue;
    lacks = missing_feature(each);
    if (lacks == NULL) {
      *level = each;
      return TCOPT_OK;
    }
  }
  if (lacks == NULL)
    return fail(TCOPT_INVALID_ARGUMENT, "%s has no code for a CPU named %s", descriptor->name,
                wanted);
  return fail(TCOPT_WRONG_CPU, "%s has no code for this CPU, which lacks %s", descriptor->name,
              lacks);
}

// Sets the model's weights from the options, and checks them.
static tcopt_status load_weights(tcopt_model *model, const tcopt_model_options *options) {
  const tcopt_descriptor *descriptor = model->descriptor;
  bool is_trusted = (options->flags & TCOPT_SKIP_DIGEST) != 0;
  size_t bytes = options->weights_bytes;
  model->weights = (const uint8_t *)options->weights;
  if (options->weights_path != NULL) {
    tcopt_status status = map_file(options->weights_path, &model->mapped, &model->mapped_bytes);
    if (status != TCOPT_OK)
      return status;
    model->weights = (const uint8_t *)model->mapped;
    bytes = model->mapped_bytes;
  } else if (model->weights == NULL) {
    if (descriptor->weights == NULL)
      return fail(TCOPT_INVALID_ARGUMENT, "the weights of %s are not in the library: give them",
                  descriptor->name);
    // They are part of the program, like its code.
    model->weights = descriptor->weights;
    return TCOPT_OK;
  }
  return check_weights(descriptor, model->level, model->weights, bytes, is_trusted);
}

static void describe(tcopt_model *model) {
  static const char digits[] = "0123456789abcdef";
  const tcopt_descriptor *descriptor = model->descriptor;
  for (int i = 0; i < DIGEST_BYTES; i++) {
    model->digest_text[2 * i] = digits[descriptor->digest[i] >> 4];
    model->digest_text[2 * i + 1] = digits[descriptor->digest[i] & 15];
  }
  model->digest_text[2 * DIGEST_BYTES] = 0;
  model->info.name = descriptor->name;
  model->info.producer = descriptor->producer;
  model->info.producer_version = descriptor->producer_version;
  model->info.weights_digest = model->digest_text;
  model->info.cpu_level = model->level->cpu;
  model->info.format_version = descriptor->format_version;
  model->info.weights_bytes = descriptor->weights_bytes;
  model->info.instance_bytes = instance_bytes(descriptor, model->level);
}

tcopt_status tcopt_model_create(const tcopt_descriptor *descriptor,
                                const tcopt_model_options *options, tcopt_model **result) {
  static const tcopt_model_options usual = TCOPT_MODEL_OPTIONS;
  const tcopt_level *level = NULL;
  if (descriptor == NULL || result == NULL)
    return fail(TCOPT_INVALID_ARGUMENT, "a model is created from a descriptor, not from NULL");
  *result = NULL;
  if (options == NULL)
    options = &usual;
  if (options->api_version != TCOPT_API_VERSION)
    return fail(TCOPT_WRONG_VERSION, "the program uses version %d of tcopt.h, the library is %d",
                (int64_t)options->api_version, (int64_t)TCOPT_API_VERSION);
  if (descriptor->format_version != TCOPT_FORMAT_VERSION)
    return fail(TCOPT_WRONG_VERSION, "the model has format %d; the runtime that is linked reads %d",
                (int64_t)descriptor->format_version, (int64_t)TCOPT_FORMAT_VERSION);
  tcopt_status status = choose_level(descriptor, options->cpu_level, &level);
  if (status != TCOPT_OK)
    return status;
  tcopt_allocator allocator =
      options->allocator.allocate != NULL ? options->allocator : usual_allocator();
  tcopt_model *model = NULL;
  if (allocator.allocate != NULL)
    model = (tcopt_model *)allocator.allocate(allocator.context, sizeof *model, ALIGNMENT);
  if (model == NULL)
    return fail(TCOPT_OUT_OF_MEMORY, "there is no memory for a model");
  *model = (tcopt_model){.descriptor = descriptor, .level = level, .allocator = allocator};
  status = load_weights(model, options);
  if (status != TCOPT_OK) {
    tcopt_model_destroy(model);
    return status;
  }
  describe(model);
  *result = model;
  return TCOPT_OK;
}

void tcopt_model_destroy(tcopt_model *model) {
  if (model == NULL)
    return;
  if (model->mapped != NULL)
    unmap_file(model->mapped, model->mapped_bytes);
  model->allocator.release(model->allocator.context, model, sizeof *model);
}

const tcopt_info *tcopt_model_info(const tcopt_model *model) { return &model->info; }

int32_t tcopt_input_count(const tcopt_model *model) { return model->descriptor->input_count; }

int32_t tcopt_output_count(const tcopt_model *model) { return model->descriptor->output_count; }

int32_t tcopt_size_count(const tcopt_model *model) {
  return model->descriptor->size_count + model->descriptor->computed_count;
}

const tcopt_tensor *tcopt_input(const tcopt_model *model, int32_t index) {
  bool is_one = 0 <= index && index < tcopt_input_count(model);
  return is_one ? &model->descriptor->inputs[index] : NULL;
}

const tcopt_tensor *tcopt_output(const tcopt_model *model, int32_t index) {
  bool is_one = 0 <= index && index < tcopt_output_count(model);
  return is_one ? &model->descriptor->outputs[index] : NULL;
}

const tcopt_size *tcopt_size_at(const tcopt_model *model, int32_t index) {
  bool is_one = 0 <= index && index < tcopt_size_count(model);
  return is_one ? &model->descriptor->sizes[index] : NULL;
}

int32_t tcopt_input_index(const tcopt_model *model, const char *name) {
  for (int32_t i = 0; i < tcopt_input_count(model); i++)
    if (equal_text(model->descriptor->inputs[i].name, name))
      return i;
  return -1;
}

int32_t tcopt_output_index(const tcopt_model *model, const char *name) {
  for (int32_t i = 0; i < tcopt_output_count(model); i++)
    if (equal_text(model->descriptor->outputs[i].name, name))
      return i;
  return -1;
}

int32_t tcopt_size_index(const tcopt_model *model, const char *name) {
  for (int32_t i = 0; i < tcopt_size_count(model); i++)
    if (equal_text(model->descriptor->sizes[i].name, name))
      return i;
  return -1;
}

void tcopt_model_cancel(const tcopt_model *model, int32_t is_cancelled) {
  __atomic_store_n(model->descriptor->state->stop, is_cancelled != 0, __ATOMIC_RELAXED);
}
