"""Dot-product instructions of Arm, natively or under qemu."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

from machines.other_machines import runner_for
from programs.dot_products import CASES, Case, factors, lowered, scheduled
from tcopt.backends.llvm.machine.host import named_target
from tcopt.backends.llvm.machine.linker import find_linker
from tcopt.backends.llvm.objects import emit_assembly, emit_library

TARGET = "neoverse-v1"
_PROGRAM = """
#include <stdint.h>
#include <stdio.h>
extern int32_t tcopt_matmul(void **arguments);
static _Alignas(64) unsigned char data[3][1 << 16];
int main(void) {
  void *arguments[] = {data[0], data[1], data[2]};
  const char *names[] = {"x", "w", "y"};
  for (int i = 0; i < 2; i++) {
    FILE *file = fopen(names[i], "rb");
    if (!file || !fread(data[i], 1, sizeof data[i], file)) return 2;
  }
  if (tcopt_matmul(arguments)) return 3;
  FILE *file = fopen(names[2], "wb");
  fwrite(data[2], 1, SIZE, file);
  return fclose(file);
}
"""


@pytest.mark.parametrize(
    ("case", "instruction"),
    list(zip(CASES[:3], ("bfdot", "sdot", "usdot"), strict=True)),
    ids=[case.name for case in CASES[:3]],
)
def test_products_on_arm(
    case: Case, instruction: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    rows, columns, depth = 3, 22, 16
    runner, target = runner_for(TARGET), named_target(TARGET)
    # Six lanes are one and a half instructions.
    module = lowered(scheduled(case, rows, columns, depth, lanes=6), TARGET)
    assert f"\t{instruction}\t" in emit_assembly(module)
    for op in module.ops:
        if isinstance(op, FuncOp):
            del op.properties["sym_visibility"]
    emit_library(module, tmp_path / "lib.so", target)
    x, w, expected = factors(case, rows, columns, depth, rng)
    (tmp_path / "x").write_bytes(x.tobytes())
    (tmp_path / "w").write_bytes(w.tobytes())
    (tmp_path / "main.c").write_text(_PROGRAM.replace("SIZE", str(expected.nbytes)))
    linker = find_linker(target)
    assert linker is not None
    command = [*linker, "main.c", "lib.so", "-o", "main", "-Wl,-rpath,$ORIGIN"]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run([*runner, "./main"], cwd=tmp_path, check=True, timeout=300)
    result = np.fromfile(tmp_path / "y", expected.dtype).reshape(expected.shape)
    if case.total == "i32":
        np.testing.assert_array_equal(result, expected)
    else:
        # Products are rounded to odd in pairs, and their sums once more: 8 of each, in f32.
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
