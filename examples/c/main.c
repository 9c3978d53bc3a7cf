/* Prints the inputs and outputs of a model, and the first results for inputs of zeros. */
#include <stdio.h>
#include <stdlib.h>

#include "squeezenet.h"

static int failed(void) {
  fprintf(stderr, "error: %s\n", tcopt_last_error());
  return 1;
}

static void print(const char *role, const tcopt_tensor *tensor) {
  printf("%s \"%s\", type %d:", role, tensor->name, (int)tensor->dtype);
  for (int axis = 0; axis < tensor->rank; axis++)
    printf(" %lld", (long long)tensor->shape[axis].high);
  puts("");
}

int main(void) {
  tcopt_model *model;
  tcopt_instance *instance;
  if (tcopt_model_create(tcopt_descriptor_squeezenet(), NULL, &model) != TCOPT_OK)
    return failed();
  const tcopt_info *info = tcopt_model_info(model);
  printf("%s for %s, weights %.8s\n", info->name, info->cpu_level, info->weights_digest);
  print("input", tcopt_input(model, 0));
  print("output", tcopt_output(model, 0));
  if (tcopt_instance_create(model, NULL, &instance) != TCOPT_OK)
    return failed();
  float *pixels = calloc(3 * 224 * 224, sizeof *pixels);
  if (pixels == NULL || tcopt_set_input(instance, 0, pixels, NULL) != TCOPT_OK ||
      tcopt_run(instance) != TCOPT_OK)
    return failed();
  const float *scores = tcopt_output_data(instance, 0);
  printf("scores %g %g %g ...\n", (double)scores[0], (double)scores[1], (double)scores[2]);
  tcopt_instance_destroy(instance);
  tcopt_model_destroy(model);
  free(pixels);
  return 0;
}
