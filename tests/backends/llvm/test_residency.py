"""LLVM's code pages are released, and loaded again when needed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from programs.kernel_modules import parse_kernel
from tcopt.backends.llvm.jit import compile_module
from tcopt.backends.llvm.residency import release_code_pages

_KERNEL = """
func.func @k(%x: f32) -> f32 {
  %y = arith.addf %x, %x : f32
  func.return %y : f32
}
"""


def resident_code() -> int:
    """Return the resident size of LLVM's machine code in kilobytes."""
    total, counted = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            counted = " r-xp " in line and "libllvmlite" in line
        elif counted and line.startswith("Rss:"):
            total += int(line.split()[1])
    return total


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_code_pages_are_released_and_come_back():
    compile_module(parse_kernel(_KERNEL))
    before = resident_code()
    assert release_code_pages() > 0
    assert resident_code() < before // 4
    assert compile_module(parse_kernel(_KERNEL)).function("k")(2.0) == 4.0
