"""A model saved as a shared library runs from C without Python."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tcopt

_PROGRAM = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
extern int32_t tcopt_main(void **arguments);
static void *whole(const char *path, size_t size) {
  void *data = aligned_alloc(64, (size + 63) / 64 * 64 + 64);
  FILE *file = fopen(path, "rb");
  if (!file || fread(data, 1, size, file) != size) exit(2);
  return data;
}
int main(int argc, char **argv) {
  size_t in = atoi(argv[3]), out = atoi(argv[4]), weights = atoi(argv[5]), work = atoi(argv[6]);
  void *result = malloc(out);
  void *arguments[] = {whole(argv[1], in), result, whole(argv[2], weights),
                       aligned_alloc(64, (work + 63) / 64 * 64 + 64)};
  if (tcopt_main(arguments)) return 3;
  return fwrite(result, 1, out, stdout) != out;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_library_runs_from_c(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    weight = generator.standard_normal((64, 96)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])],
        "dense",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [32, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [32, 96])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    model = tcopt.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    library = tmp_path / "libdense.so"
    model.save(library)
    facts = json.loads(Path(f"{library}.json").read_text())
    sizes = {argument["role"]: argument.get("bytes") for argument in facts["arguments"]}
    source = tmp_path / "main.c"
    source.write_text(_PROGRAM)
    binary = tmp_path / "main"
    link = ["cc", str(source), str(library), "-o", str(binary), f"-Wl,-rpath,{tmp_path}"]
    subprocess.run(link, check=True)
    x = generator.standard_normal((32, 64)).astype(np.float32)
    (tmp_path / "x.bin").write_bytes(x.tobytes())
    counts = [x.nbytes, 32 * 96 * 4, sizes["weights"], sizes["workspace"]]
    done = subprocess.run(
        [str(binary), str(tmp_path / "x.bin"), f"{library}.weights", *map(str, counts)],
        check=True,
        capture_output=True,
    )
    result = np.frombuffer(done.stdout, np.float32).reshape(32, 96)
    # Sums of 64 products in another order: a few units of the last place of the largest term.
    np.testing.assert_allclose(result, np.maximum(x @ weight, 0), rtol=1e-4, atol=1e-4)
