"""Formulas of extents: the C evaluator computes what Python does."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import numpy as np

from models.kits import WARNINGS, needs_compiler
from tcopt.runtime.kit import export
from tcopt.runtime.kit.formulas import equations, formula
from tcopt.runtime.specs import TensorSpec
from tcopt.support.arithmetic.sizes import (
    Extent,
    Size,
    evaluate,
    maximum,
    minimum,
    named_size,
    symbols_of,
    upper_bound,
)

_RANGES = {"n": (0, 90, 1), "m": (4, 64, 4), "k": (1, 7, 1)}
_NUMBERS = {name: number for number, name in enumerate(_RANGES)}
_SIZES = [named_size(name, *given) for name, given in _RANGES.items()]

_PROGRAM = """
#include <stdio.h>
#include "internal.h"
static const int64_t formulas[][200] = {FORMULAS};
static const int64_t values[][3] = {VALUES};
static const tcopt_size sizes[] = {SIZES};
int main(void) {
  tcopt_descriptor descriptor = {.sizes = sizes};
  for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
    for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
      Interval found = evaluate(&descriptor, formulas[i], values[k]);
      printf("%lld %lld\\n", (long long)found.low, (long long)found.high);
    }
  return 0;
}
"""


def random_extent(generator: random.Random, depth: int) -> Extent:
    if depth == 0:
        return generator.choice([*_SIZES, generator.randint(-9, 9)])
    a, b = (random_extent(generator, depth - 1) for _ in range(2))
    match generator.randrange(6):
        case 0 | 1:
            return a + b
        case 2:
            return a - b
        case 3:
            return a * b if depth < 3 else a
        case 4:
            return a // generator.randint(2, 9)
        case _:
            return generator.choice([minimum, maximum])(a, b)


def c_array(numbers: object) -> str:
    return f"{{{', '.join(map(str, numbers))}}}"  # pyright: ignore[reportArgumentType]


@needs_compiler
def test_formulas(tmp_path: Path):
    generator = random.Random(4)
    found = [random_extent(generator, 1 + number % 4) for number in range(150)]
    extents = [each for each in found if isinstance(each, Size)]
    points = [
        [generator.randrange(low, high + 1, step) for low, high, step in _RANGES.values()]
        for _ in range(5)
    ]
    unknown = [-1, -1, -1]
    texts = {
        "FORMULAS": ", ".join(c_array(formula(each.value, _NUMBERS)) for each in extents),
        "VALUES": ", ".join(map(c_array, [*points, unknown])),
        "SIZES": ", ".join(f'{{"{n}", {a}, {b}, {c}, 0}}' for n, (a, b, c) in _RANGES.items()),
    }
    source = _PROGRAM
    for name, text in texts.items():
        source = source.replace(name, text)
    (tmp_path / "main.c").write_text(source)
    folder = Path(export.__file__).parent
    parts = ["main.c", f"{folder}/c/sizes.c", f"{folder}/c/message.c", "-o", "main"]
    options = [*WARNINGS, f"-I{folder}/c", f"-I{folder}/include"]
    subprocess.run(["cc", *options, *parts], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    lines = iter(done.stdout.splitlines())
    for extent in extents:
        values = [evaluate(extent, dict(zip(_RANGES, point, strict=True))) for point in points]
        for value in values:
            assert next(lines).split() == [str(value)] * 2, extent
        low, high = map(int, next(lines).split())
        assert low <= min(values) and high >= upper_bound(extent), extent


def test_equations_are_linear_in_their_size():
    n, m, _ = _SIZES
    spec = TensorSpec("x", (2 * n + m, n * m, n // 2, n * n), np.dtype(np.float32))
    found = [(each.axis, each.size) for each in equations([spec], _NUMBERS)]
    assert sorted(found) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert all(symbols_of(extent) for extent in spec.shape if isinstance(extent, Size))
