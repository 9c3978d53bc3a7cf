// Sizes: formulas of extents, and the values of sizes from the shapes of inputs.

#include "internal.h"

#define MOST_OPERANDS 32

static int64_t divide(int64_t a, int64_t b) { return a / b - (a % b < 0); }

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t greatest(int64_t a, int64_t b) { return a > b ? a : b; }

static Interval product(Interval a, Interval b) {
  int64_t w = a.low * b.low, x = a.low * b.high, y = a.high * b.low, z = a.high * b.high;
  return (Interval){least(least(w, x), least(y, z)), greatest(greatest(w, x), greatest(y, z))};
}

// The bounds of a formula. They are equal if all its sizes are known.
Interval evaluate(const tcopt_descriptor *descriptor, const int64_t *formula,
                  const int64_t *values) {
  Interval stack[MOST_OPERANDS] = {{0, 0}};
  int32_t depth = 0;
  for (; *formula != FORMULA_END; formula++) {
    Interval *top = &stack[depth > 0 ? depth - 1 : 0];
    switch (*formula) {
    case FORMULA_NUMBER:
      formula++;
      stack[depth++] = (Interval){*formula, *formula};
      break;
    case FORMULA_SIZE: {
      const tcopt_size *size = &descriptor->sizes[*++formula];
      int64_t value = values[*formula];
      int64_t low = value < 0 ? size->low : value, high = value < 0 ? size->high : value;
      stack[depth++] = (Interval){low / size->multiple, high / size->multiple};
      break;
    }
    case FORMULA_DIVIDE:
      formula++;
      *top = (Interval){divide(top->low, *formula), divide(top->high, *formula)};
      break;
    default: {
      Interval b = *top, *a = top - 1;
      if (*formula == FORMULA_ADD)
        *a = (Interval){a->low + b.low, a->high + b.high};
      else if (*formula == FORMULA_MULTIPLY)
        *a = product(*a, b);
      else if (*formula == FORMULA_MINIMUM)
        *a = (Interval){least(a->low, b.low), least(a->high, b.high)};
      else
        *a = (Interval){greatest(a->low, b.low), greatest(a->high, b.high)};
      depth--;
    }
    }
  }
  return stack[0];
}

Interval extent_of(const tcopt_descriptor *descriptor, const tcopt_extent *extent,
                   const int64_t *values) {
  if (extent->formula == NULL)
    return (Interval){extent->low, extent->high};
  return evaluate(descriptor, extent->formula, values);
}

static bool is_known(Interval value) { return value.low == value.high; }

// Whether a value is in the range of a size.
static bool is_legal(const tcopt_size *size, int64_t value) {
  return size->low <= value && value <= size->high && value % size->multiple == 0;
}

static tcopt_status refuse_size(const tcopt_size *size, int64_t value) {
  return fail(TCOPT_INVALID_SHAPE,
              "size %s is %d; the model is compiled for %d to %d in steps of %d", size->name, value,
              size->low, size->high, size->multiple);
}

static tcopt_status refuse_extent(const tcopt_tensor *input, int32_t axis, int64_t value,
                                  Interval wanted) {
  const char *text = input->shape[axis].text;
  if (is_known(wanted))
    return fail(TCOPT_INVALID_SHAPE, "dimension %d of input \"%s\" is %d; it should be %d%s%s",
                (int64_t)axis, input->name, value, wanted.low, text == NULL ? "" : ", which is ",
                text == NULL ? "" : text);
  return fail(TCOPT_INVALID_SHAPE,
              "dimension %d of input \"%s\" is %d; it is %s, which is %d to %d in this model",
              (int64_t)axis, input->name, value, text, wanted.low, wanted.high);
}

// Sets the size of an equation; *found reports whether it did.
static tcopt_status solve(tcopt_instance *instance, const tcopt_equation *equation, bool *found) {
  const tcopt_descriptor *descriptor = instance->model->descriptor;
  const InputState *input = &instance->inputs[equation->input];
  const tcopt_size *size = &descriptor->sizes[equation->size];
  int64_t *values = instance->values;
  if (values[equation->size] >= 0 || !input->has_shape)
    return TCOPT_OK;
  Interval factor = evaluate(descriptor, equation->factor, values);
  Interval rest = evaluate(descriptor, equation->rest, values);
  if (!is_known(factor) || !is_known(rest) || factor.low == 0)
    return TCOPT_OK;
  int64_t extent = input->shape[equation->axis], left = extent - rest.low;
  // Bounds of the quotient are tested first, so that the product cannot overflow.
  int64_t value = left / factor.low;
  if (left % factor.low != 0 || value < 0 || value > size->high / size->multiple ||
      !is_legal(size, value * size->multiple)) {
    const tcopt_tensor *tensor = &descriptor->inputs[equation->input];
    Interval wanted = extent_of(descriptor, &tensor->shape[equation->axis], values);
    return refuse_extent(tensor, equation->axis, extent, wanted);
  }
  values[equation->size] = value * size->multiple;
  *found = true;
  return TCOPT_OK;
}

// Checks the given shape of an input against the sizes.
static tcopt_status check_shape(const tcopt_instance *instance, int32_t index) {
  const tcopt_descriptor *descriptor = instance->model->descriptor;
  const tcopt_tensor *tensor = &descriptor->inputs[index];
  const InputState *input = &instance->inputs[index];
  for (int32_t axis = 0; input->has_shape && axis < tensor->rank; axis++) {
    Interval wanted = extent_of(descriptor, &tensor->shape[axis], instance->values);
    if (input->shape[axis] != wanted.low)
      return refuse_extent(tensor, axis, input->shape[axis], wanted);
  }
  return TCOPT_OK;
}

tcopt_status solve_sizes(tcopt_instance *instance) {
  const tcopt_descriptor *descriptor = instance->model->descriptor;
  int32_t count = descriptor->size_count;
  tcopt_status status = TCOPT_OK;
  for (int32_t i = 0; i < count + descriptor->computed_count; i++) {
    instance->values[i] = i < count ? instance->given[i] : -1;
    if (instance->values[i] >= 0 && !is_legal(&descriptor->sizes[i], instance->values[i]))
      return refuse_size(&descriptor->sizes[i], instance->values[i]);
  }
  for (bool found = true; found && status == TCOPT_OK;) {
    found = false;
    for (int32_t i = 0; status == TCOPT_OK && i < descriptor->equation_count; i++)
      status = solve(instance, &descriptor->equations[i], &found);
  }
  if (status != TCOPT_OK)
    return status;
  for (int32_t i = 0; i < count; i++) {
    const tcopt_size *size = &descriptor->sizes[i];
    if (instance->values[i] < 0)
      return fail(TCOPT_INVALID_SHAPE,
                  "size %s is unknown: give the shapes of inputs, or call tcopt_set_size",
                  size->name);
  }
  for (int32_t i = 0; status == TCOPT_OK && i < descriptor->input_count; i++)
    status = check_shape(instance, i);
  return status;
}

// Takes the values of the sizes that a run has computed; some have to be in their ranges.
tcopt_status take_computed_sizes(tcopt_instance *instance) {
  const tcopt_descriptor *descriptor = instance->model->descriptor;
  for (int32_t i = 0; i < descriptor->computed_count; i++) {
    const tcopt_size *size = &descriptor->sizes[descriptor->size_count + i];
    int64_t value = instance->computed[i];
    if (descriptor->is_checked[i] && !is_legal(size, value))
      return refuse_size(size, value);
    instance->values[descriptor->size_count + i] = value;
  }
  return TCOPT_OK;
}
