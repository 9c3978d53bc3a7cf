"""A model saved as a shared library runs from C without Python."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tcopt
from tcopt.runtime.library import check_library
from tcopt.support.errors import BackendError, InputError, TcoptError

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
    # Sums of 64 products in another order: a few ulp of the largest term.
    np.testing.assert_allclose(result, np.maximum(x @ weight, 0), rtol=1e-4, atol=1e-4)


def dense(extent: int) -> tcopt.Model:
    weight = np.full((extent, 33), 0.5, np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "dense",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, extent])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, 33])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    return tcopt.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_save_that_fails_leaves_all_parts_as_they_were(tmp_path, monkeypatch):
    dense(70).save(tmp_path / "a.so")
    before = contents(tmp_path)
    assert sorted(before) == ["a.so", "a.so.json", "a.so.weights"]
    with monkeypatch.context() as patch, pytest.raises(BackendError):
        patch.setenv("PATH", "/nonexistent")
        dense(7).save(tmp_path / "a.so")
    assert contents(tmp_path) == before
    with monkeypatch.context() as patch, pytest.raises(InputError, match="cannot write"):

        def full(_):
            raise OSError(28, "No space left on device")

        patch.setattr(os, "fsync", full)
        dense(7).save(tmp_path / "a.so")
    assert contents(tmp_path) == before
    dense(7).save(tmp_path / "a.so")
    after = contents(tmp_path)
    assert sorted(after) == sorted(before) and all(after[n] != before[n] for n in before)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_parts_that_do_not_belong_together_are_found(tmp_path):
    library = tmp_path / "a.so"
    dense(70).save(library)
    dense(7).save(tmp_path / "b.so")
    check_library(library)
    before = contents(tmp_path)
    changes: list[tuple[str, bytes]] = [(n, before[n.replace("a", "b", 1)]) for n in before]
    for name in ("a.so", "a.so.weights"):
        damaged = bytearray(before[name])
        damaged[len(damaged) // 2] ^= 1
        changes += [(name, bytes(damaged)), (name, before[name][:-1]), (name, b"")]
    changes += [("a.so.json", text) for text in (b"", b"[]", b"{", b"[" * 100_000, b"\xff")]
    for name, data in changes:
        if name.startswith("b"):
            continue
        (tmp_path / name).write_bytes(data)
        with pytest.raises(TcoptError):
            check_library(library)
        (tmp_path / name).write_bytes(before[name])
    check_library(library)
