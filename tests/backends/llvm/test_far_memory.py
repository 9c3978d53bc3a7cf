"""Code can be linked if the only free memory is in small, distant gaps of a large process."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.nightly

_SCRIPT = """
import ctypes
import numpy as np
import onnx.parser
import tcopt

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
PAGE, FAR = 4096, 4 << 30

def reserve(size):
    "Addresses that nothing else gets, without memory: MAP_PRIVATE, MAP_ANONYMOUS, MAP_NORESERVE."
    return libc.mmap(None, size, 0, 0x02 | 0x20 | 0x4000, -1, 0)

def check(columns):
    model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 21]>'
        f'f (float[6, {columns}] x) => (float[6, {columns}] y) {{ a = Exp(x) y = Softmax(a) }}')
    x = np.linspace(-1, 1, 6 * columns, dtype=np.float32).reshape(6, columns)
    (ours,) = tcopt.compile(model, cache=False, workers=0).run({"x": x})
    exact = np.exp(np.exp(x))
    np.testing.assert_allclose(ours, exact / exact.sum(1, keepdims=True), rtol=1e-5)

check(50)
barrier = reserve(FAR)
taken = []
for size in (1 << 30, 1 << 26, 1 << 22, 1 << 18, 1 << 14, PAGE):
    while (place := reserve(size)) > barrier:
        taken.append((place, size))
    libc.munmap(place, size)
pages = [place for place, size in taken if size == PAGE]
assert len(pages) > 8, "there were no small places"
for turn in range(1, 4):
    for _ in range(turn):
        libc.munmap(pages.pop(), PAGE)
    check(50 + turn)
print("fine")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reserves memory as Linux does")
def test_code_is_loaded_where_only_single_pages_are_free_nearby() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr[-2000:]
