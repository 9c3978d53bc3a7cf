"""The C interface of kits: errors, weights in files, memory and threads of the caller."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import onnx.numpy_helper
import onnx.parser
import pytest

import tcopt
from models.kits import Kit, KitError, needs_compiler, needs_cpp, random_feeds
from tcopt.runtime.kit import export
from tcopt.support.files.digests import digest_of

pytestmark = needs_compiler

_BEGIN = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include MODEL_HEADER
#define EXPECT(call, status) expect(__LINE__, call, status)
static void expect(int line, tcopt_status found, tcopt_status wanted) {
  if (found == wanted && (found == TCOPT_OK || tcopt_last_error()[0])) return;
  printf("line %d: %s: %s\\n", line, tcopt_status_name(found), tcopt_last_error());
  exit(1);
}
#define HOLDS(condition) if (!(condition)) return printf("line %d\\n", __LINE__)
#define ROWS 600
static float x[ROWS * 64], y[ROWS * 48];
static int all(const float *values, int rows, float wanted) {
  for (int i = 0; i < rows * 48; i++) if (values[i] != wanted) return 0;
  return 1;
}
static tcopt_model *model;
static tcopt_instance *instance;
"""


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Kit:
    """A product with a matrix of ones, for up to 600 rows, whose weights are in a file."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        dense (float[rows, 64] x) => (float[rows, 48] y) { p = MatMul(x, w) y = Relu(p) }""")
    ones = np.ones((64, 48), np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(ones, "w"))
    compiled = tcopt.compile(model, dims={"rows": (2, 600, 2)})
    return Kit.of(compiled, tmp_path_factory.mktemp("kit"), weights="file")


def run_source(kit: Kit, body: str, *flags: str) -> None:
    """Compile and run a C program whose `main` has this body."""
    source = f'{_BEGIN}\n#define WEIGHTS "{kit.folder}/lib/net.weights"\n{body}'
    program = kit.build(source, "program", "-Wno-unused", *flags)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


_CREATE = """
  tcopt_model_options how = TCOPT_MODEL_OPTIONS;
  how.weights_path = WEIGHTS;
  EXPECT(tcopt_model_create(DESCRIPTOR(), &how, &model), TCOPT_OK);
"""


def test_facts(kit: Kit):
    run_source(
        kit,
        f"""int main(void) {{ {_CREATE}
  const tcopt_info *info = tcopt_model_info(model);
  HOLDS(!strcmp(info->name, "net") && !strcmp(info->producer, "tcopt"));
  HOLDS(!strcmp(info->producer_version, "{tcopt.__version__}"));
  HOLDS(strlen(info->weights_digest) == 64 && info->cpu_level[0] && info->format_version == 1);
  HOLDS(tcopt_input_count(model) == 1 && tcopt_output_count(model) == 1);
  HOLDS(tcopt_input_index(model, "x") == 0 && tcopt_input_index(model, "y") == -1);
  HOLDS(tcopt_output_index(model, "y") == 0 && tcopt_output(model, 1) == NULL);
  const tcopt_tensor *input = tcopt_input(model, 0);
  HOLDS(input->dtype == TCOPT_FLOAT32 && input->item_bytes == 4 && input->rank == 2);
  HOLDS(input->shape[0].low == 2 && input->shape[0].high == 600 && input->shape[0].text);
  HOLDS(input->shape[1].low == 64 && input->shape[1].high == 64 && !input->shape[1].text);
  const tcopt_size *size = tcopt_size_at(model, tcopt_size_index(model, "rows"));
  HOLDS(size->low == 2 && size->high == 600 && size->multiple == 2 && !size->is_computed);
  HOLDS(tcopt_api_version() == TCOPT_API_VERSION);
  return 0; }}""",
    )


def test_sizes_and_outputs(kit: Kit):
    run_source(
        kit,
        f"""int main(void) {{ {_CREATE}
  int64_t shape[2] = {{6, 64}}, found[2];
  for (int i = 0; i < ROWS * 64; i++) x[i] = 0.5f;
  EXPECT(tcopt_instance_create(model, NULL, &instance), TCOPT_OK);
  EXPECT(tcopt_run(instance), TCOPT_INVALID_SHAPE);
  EXPECT(tcopt_set_input(instance, 1, x, shape), TCOPT_INVALID_ARGUMENT);
  EXPECT(tcopt_set_input(instance, 0, (char *)x + 1, shape), TCOPT_INVALID_ARGUMENT);
  EXPECT(tcopt_set_input(instance, 0, NULL, shape), TCOPT_OK);
  EXPECT(tcopt_run(instance), TCOPT_INVALID_ARGUMENT);
  EXPECT(tcopt_set_input(instance, 0, x, shape), TCOPT_OK);
  EXPECT(tcopt_prepare(instance), TCOPT_OK);
  EXPECT(tcopt_output_shape(instance, 0, found), TCOPT_OK);
  HOLDS(found[0] == 6 && found[1] == 48 && tcopt_output_bytes(instance, 0) == 6 * 48 * 4);
  EXPECT(tcopt_set_output(instance, 0, y, 6 * 48 * 4 - 1), TCOPT_OK);
  EXPECT(tcopt_run(instance), TCOPT_INVALID_ARGUMENT);
  EXPECT(tcopt_set_output(instance, 0, y, 6 * 48 * 4), TCOPT_OK);
  EXPECT(tcopt_run(instance), TCOPT_OK);
  HOLDS(all(y, 6, 32) && tcopt_output_data(instance, 0) == y && y[6 * 48] == 0);
  shape[0] = 7;
  EXPECT(tcopt_set_input(instance, 0, x, shape), TCOPT_OK);
  EXPECT(tcopt_run(instance), TCOPT_INVALID_SHAPE);
  shape[0] = -2;
  EXPECT(tcopt_set_input(instance, 0, x, shape), TCOPT_INVALID_SHAPE);
  // The size is given, and the shape follows.
  EXPECT(tcopt_set_input(instance, 0, x, NULL), TCOPT_OK);
  EXPECT(tcopt_set_output(instance, 0, NULL, 0), TCOPT_OK);
  EXPECT(tcopt_set_size(instance, 0, INT64_MAX), TCOPT_OK);
  EXPECT(tcopt_run(instance), TCOPT_INVALID_SHAPE);
  EXPECT(tcopt_set_size(instance, 0, 600), TCOPT_OK);
  EXPECT(tcopt_run(instance), TCOPT_OK);
  HOLDS(tcopt_size_value(instance, 0) == 600 && all(tcopt_output_data(instance, 0), 600, 32));
  shape[0] = 6;
  EXPECT(tcopt_set_input(instance, 0, x, shape), TCOPT_OK);
  EXPECT(tcopt_run(instance), TCOPT_INVALID_SHAPE);
  tcopt_instance_destroy(instance);
  tcopt_model_destroy(model);
  return 0; }}""",
    )


def test_versions_and_cpus(kit: Kit):
    run_source(
        kit,
        f"""int main(void) {{ {_CREATE}
  tcopt_instance_options on = TCOPT_INSTANCE_OPTIONS;
  on.api_version++;
  EXPECT(tcopt_instance_create(model, &on, &instance), TCOPT_WRONG_VERSION);
  tcopt_model_destroy(model);
  how.cpu_level = "z80";
  EXPECT(tcopt_model_create(DESCRIPTOR(), &how, &model), TCOPT_INVALID_ARGUMENT);
  how.cpu_level = NULL;
  how.weights_path = NULL;
  EXPECT(tcopt_model_create(DESCRIPTOR(), &how, &model), TCOPT_INVALID_ARGUMENT);
  EXPECT(tcopt_model_create(DESCRIPTOR(), NULL, &model), TCOPT_INVALID_ARGUMENT);
  how.api_version++;
  EXPECT(tcopt_model_create(DESCRIPTOR(), &how, &model), TCOPT_WRONG_VERSION);
  HOLDS(model == NULL);
  return 0; }}""",
    )


def test_instances_share_weights_and_run_side_by_side(kit: Kit):
    run_source(
        kit,
        f"""
static void *work(void *argument) {{
  float value = *(float *)argument;
  float *in = malloc(sizeof x);
  tcopt_instance *own;
  tcopt_instance_options on = TCOPT_INSTANCE_OPTIONS;
  on.threads = 2;
  EXPECT(tcopt_instance_create(model, &on, &own), TCOPT_OK);
  for (int run = 0; run < 40; run++) {{
    int64_t shape[2] = {{2 + 2 * (run * 7 % 299), 64}};
    for (int i = 0; i < shape[0] * 64; i++) in[i] = value + run;
    EXPECT(tcopt_set_input(own, 0, in, shape), TCOPT_OK);
    EXPECT(tcopt_run(own), TCOPT_OK);
    if (!all(tcopt_output_data(own, 0), (int)shape[0], 64 * (value + run))) return argument;
  }}
  tcopt_instance_destroy(own);
  free(in);
  return NULL;
}}
int main(void) {{ {_CREATE}
  pthread_t threads[3];
  float values[3] = {{1, 100, 10000}};
  for (int i = 0; i < 3; i++) HOLDS(!pthread_create(&threads[i], NULL, work, &values[i]));
  for (int i = 0; i < 3; i++) {{
    void *failed;
    HOLDS(!pthread_join(threads[i], &failed) && failed == NULL);
  }}
  tcopt_model_destroy(model);
  return 0; }}""",
    )


def test_memory_and_threads_of_the_caller(kit: Kit):
    run_source(
        kit,
        """
static size_t used, loops, ranges;
static void *take(void *context, size_t bytes, size_t alignment) {
  if (context == NULL) return NULL;
  used += bytes;
  return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
static void drop(void *context, void *memory, size_t bytes) {
  used -= bytes + (context == NULL);
  free(memory);
}
static void backwards(void *context, tcopt_body body, void *argument, int64_t total,
                      int64_t grain) {
  loops += context == &loops;
  for (int64_t end = total; end > 0; end -= grain, ranges++)
    body(argument, end < grain ? 0 : end - grain, end);
}
int main(void) {
  tcopt_model_options how = TCOPT_MODEL_OPTIONS;
  how.weights_path = WEIGHTS;
  how.allocator = (tcopt_allocator){take, drop, NULL};
  EXPECT(tcopt_model_create(DESCRIPTOR(), &how, &model), TCOPT_OUT_OF_MEMORY);
  how.allocator.context = &used;
  EXPECT(tcopt_model_create(DESCRIPTOR(), &how, &model), TCOPT_OK);
  size_t before = used, bytes = tcopt_model_info(model)->instance_bytes;
  tcopt_instance_options on = TCOPT_INSTANCE_OPTIONS;
  on.parallel_for = backwards;
  on.parallel_context = &loops;
  on.memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
  on.memory_bytes = bytes - 1;
  EXPECT(tcopt_instance_create(model, &on, &instance), TCOPT_INVALID_ARGUMENT);
  on.memory_bytes = bytes;
  EXPECT(tcopt_instance_create(model, &on, &instance), TCOPT_OK);
  int64_t shape[2] = {ROWS, 64};
  for (int i = 0; i < ROWS * 64; i++) x[i] = 1;
  EXPECT(tcopt_set_input(instance, 0, x, shape), TCOPT_OK);
  EXPECT(tcopt_set_output(instance, 0, y, sizeof y), TCOPT_OK);
  EXPECT(tcopt_run(instance), TCOPT_OK);
  HOLDS(all(y, ROWS, 64) && used == before && loops > 0 && ranges > loops);
  EXPECT(tcopt_set_output(instance, 0, NULL, 0), TCOPT_OK);
  EXPECT(tcopt_run(instance), TCOPT_OK);
  HOLDS(used > before && all(tcopt_output_data(instance, 0), ROWS, 64));
  tcopt_instance_destroy(instance);
  free(on.memory);
  HOLDS(used == before);
  tcopt_model_destroy(model);
  HOLDS(used == 0);
  return 0; }""",
    )


def test_cancellation(kit: Kit):
    run_source(
        kit,
        f"""int main(void) {{ {_CREATE}
  int64_t shape[2] = {{ROWS, 64}};
  EXPECT(tcopt_instance_create(model, NULL, &instance), TCOPT_OK);
  EXPECT(tcopt_set_input(instance, 0, x, shape), TCOPT_OK);
  tcopt_model_cancel(model, 1);
  EXPECT(tcopt_run(instance), TCOPT_CANCELLED);
  tcopt_model_cancel(model, 0);
  EXPECT(tcopt_run(instance), TCOPT_OK);
  return 0; }}""",
    )


def test_weights_in_memory(kit: Kit):
    run_source(
        kit,
        """int main(void) {
  static _Alignas(64) char memory[1 << 20];
  tcopt_model_options how = TCOPT_MODEL_OPTIONS;
  FILE *file = fopen(WEIGHTS, "rb");
  how.weights = memory;
  how.weights_bytes = fread(memory, 1, sizeof memory, file);
  EXPECT(tcopt_model_create(DESCRIPTOR(), &how, &model), TCOPT_OK);
  EXPECT(tcopt_instance_create(model, NULL, &instance), TCOPT_OK);
  memory[100] ^= 1;
  EXPECT(tcopt_model_create(DESCRIPTOR(), &how, &model), TCOPT_WRONG_WEIGHTS);
  how.flags = TCOPT_SKIP_DIGEST;
  EXPECT(tcopt_model_create(DESCRIPTOR(), &how, &model), TCOPT_OK);
  memmove(memory + 4, memory, how.weights_bytes);
  how.weights = memory + 4;
  EXPECT(tcopt_model_create(DESCRIPTOR(), &how, &model), TCOPT_INVALID_ARGUMENT);
  return 0; }""",
    )


def test_files_with_other_weights(kit: Kit, tmp_path: Path):
    feeds = random_feeds(kit.model, ((2, 64),))
    weights = (kit.folder / "lib" / "net.weights").read_bytes()
    file = tmp_path / "net.weights"
    changes = {0: "WRONG_WEIGHTS", 16: "WRONG_VERSION", 40: "WRONG_WEIGHTS", 5000: "WRONG_WEIGHTS"}
    for position, status in changes.items():
        changed = bytearray(weights)
        changed[position] ^= 1
        file.write_bytes(changed)
        assert status_of(kit, feeds, file) == status
    for cut in (b"", weights[:20], weights[:-1], weights + b"x"):
        file.write_bytes(cut)
        assert status_of(kit, feeds, file) == "WRONG_WEIGHTS"
    assert status_of(kit, feeds, tmp_path) == "IO_ERROR"
    assert status_of(kit, feeds, tmp_path / "missing") == "IO_ERROR"
    file.write_bytes(weights)
    (ours,) = kit.run(feeds, weights=str(file))
    np.testing.assert_array_equal(ours, kit.model.run(feeds)[0])


def status_of(kit: Kit, feeds: dict[str, np.ndarray], weights: Path) -> str:
    with pytest.raises(KitError) as caught:
        kit.run(feeds, weights=str(weights))
    return caught.value.status


@needs_cpp
def test_cpp(kit: Kit):
    source = f"""
#include <vector>
#include "tcopt.hpp"
#include MODEL_HEADER
template <typename Body> int status(Body body) {{
  try {{ body(); }} catch (const tcopt::Error &error) {{ return error.status(); }}
  return TCOPT_OK;
}}
int main() {{
  tcopt::Model model(DESCRIPTOR(), std::string("{kit.folder}/lib/net.weights"));
  tcopt::Instance first(model), instance(std::move(first));
  std::vector<float> x(8 * 64, 0.25f);
  std::vector<double> d(8 * 64);
  instance.set_input<float>("x", x, {{8, 64}});
  instance.run();
  auto y = instance.output<float>("y");
  if (y.size() != 8 * 48 || instance.output_shape("y") != tcopt::Shape{{8, 48}}) return 1;
  for (float each : y) if (each != 16) return 2;
  if (status([&] {{ instance.set_input<double>("x", d, {{8, 64}}); }}) != TCOPT_INVALID_ARGUMENT)
    return 3;
  if (status([&] {{ instance.set_input<float>("x", x, {{9, 64}}); }}) != TCOPT_INVALID_SHAPE)
    return 4;
  if (status([&] {{ instance.output<float>("z"); }}) != TCOPT_INVALID_ARGUMENT) return 5;
  if (status([&] {{ tcopt::Model other(DESCRIPTOR()); }}) != TCOPT_INVALID_ARGUMENT) return 6;
  return 0;
}}"""
    program = kit.build(source, "cpp", "-std=c++17", language="c++")
    subprocess.run([str(program)], check=True)


_DIGEST = """
#include "sha256.h"
void digest_of(const uint8_t *data, uint64_t bytes, uint8_t digest[DIGEST_BYTES]);
int main(int count, char **texts) {
  static uint8_t data[3 << 20], digest[DIGEST_BYTES];
  for (size_t i = 0; i < sizeof data; i++)
    data[i] = (uint8_t)(i * i >> 3);
  for (int i = 1; i < count; i++) {
    digest_of(data, strtoull(texts[i], NULL, 10), digest);
    for (int k = 0; k < DIGEST_BYTES; k++)
      printf("%02x", digest[k]);
    puts("");
  }
}
"""


@pytest.mark.parametrize("mode", ["hosted", "freestanding"])
def test_digests(mode: str, tmp_path: Path):
    """Digests equal those of Python, with the processor's instructions for them and without."""
    sizes = [0, 1, 54, 55, 56, 63, 64, 65, 1000, 1 << 20, (1 << 20) + 1, 3 << 20]
    folder = Path(export.__file__).parent
    (tmp_path / "main.c").write_text(f"#include <stdio.h>\n#include <stdlib.h>\n{_DIGEST}")
    sources = [str(folder / "c" / f"{name}.c") for name in ("weights", "sha256", "cpu", "message")]
    options = ["-O2", f"-I{folder}/c", f"-I{folder}/include"]
    options += ["-DTCOPT_FREESTANDING"] if mode == "freestanding" else []
    command = ["cc", *options, "main.c", *sources, "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(
        [tmp_path / "main", *map(str, sizes)], capture_output=True, text=True, check=True
    )
    index = np.arange(3 << 20, dtype=np.uint64)
    data = (index * index >> np.uint64(3)).astype(np.uint8).tobytes()
    assert done.stdout.split() == [digest_of([data[:size]]).hex() for size in sizes]
