// Runs a kit: driver THREADS WEIGHTS INPUT...
// WEIGHTS is a file, or empty. An INPUT is a file of elements and its extents: x.bin:3,4
// Prints the shape of each output to standard output, and writes output N to outN.bin.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include MODEL_HEADER

static void check(tcopt_status status) {
  if (status != TCOPT_OK) {
    fprintf(stderr, "%s: %s\n", tcopt_status_name(status), tcopt_last_error());
    exit(10 + (int)status);
  }
}

int main(int count, char **texts) {
  tcopt_model_options how = TCOPT_MODEL_OPTIONS;
  tcopt_instance_options on = TCOPT_INSTANCE_OPTIONS;
  tcopt_model *model;
  tcopt_instance *instance;
  on.threads = atoi(texts[1]);
  how.weights_path = texts[2][0] ? texts[2] : NULL;
  check(tcopt_model_create(DESCRIPTOR(), &how, &model));
  check(tcopt_instance_create(model, &on, &instance));
  for (int i = 3; i < count; i++) {
    int64_t shape[16];
    int rank = 0;
    char *extents = strchr(texts[i], ':');
    *extents++ = 0;
    for (char *each = strtok(extents, ","); each; each = strtok(NULL, ","))
      shape[rank++] = atoll(each);
    FILE *file = fopen(texts[i], "rb");
    char *data = malloc(1 << 24);
    if (file == NULL || fread(data, 1, 1 << 24, file) == 1 << 24)
      return 1;
    check(tcopt_set_input(instance, i - 3, data, shape));
    fclose(file);
  }
  check(tcopt_run(instance));
  for (int i = 0; i < tcopt_output_count(model); i++) {
    char name[32];
    int64_t shape[16];
    check(tcopt_output_shape(instance, i, shape));
    for (int axis = 0; axis < tcopt_output(model, i)->rank; axis++)
      printf("%lld ", (long long)shape[axis]);
    puts("");
    snprintf(name, sizeof name, "out%d.bin", i);
    FILE *file = fopen(name, "wb");
    fwrite(tcopt_output_data(instance, i), 1, tcopt_output_bytes(instance, i), file);
    fclose(file);
  }
  tcopt_instance_destroy(instance);
  tcopt_model_destroy(model);
  return 0;
}
