"""Passes run in time proportional to the graph's size, measured by counting calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from programs.loop_programs import parse
from tcopt.compiler.passes import run_passes
from tcopt.passes.kernel.memory.memory_layout import Request, place

_HEAD = "func.func @main(%x0: tensor<32x32xf32>) -> tensor<32x32xf32> {\n"
_BLOCK = """
  %s{n} = graph.constant dense<3.0> : tensor<f32>
  %t{n} = graph.constant dense<0.1> : tensor<f32>
  %p{n} = graph.matmul %x{n}, %x{n} : tensor<32x32xf32>
  %d{n} = graph.div %p{n}, %s{n} : tensor<32x32xf32>
  %e{n} = graph.exp %d{n} : tensor<32x32xf32>
  %c{n} = graph.concat %e{n}, %x{n} {{axis = 0}} : tensor<64x32xf32>
  %a{n} = graph.add %c{n}, %t{n} : tensor<64x32xf32>
  %q{n} = graph.slice %a{n} {{starts = [0, 0]}} : tensor<32x32xf32>
  %x{m} = graph.add %x{n}, %q{n} : tensor<32x32xf32>
"""


def network(blocks: int) -> str:
    """Residual blocks whose products have two computed operands."""
    body = "".join(_BLOCK.format(n=n, m=n + 1) for n in range(blocks))
    return f"{_HEAD}{body}  return %x{blocks} : tensor<32x32xf32>\n}}\n"


def calls(work: Callable[[], Any]) -> int:
    """Return the number of Python function calls in the body."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def assert_linear(count: Callable[[int], int]) -> None:
    """Check that each doubling of the graph about doubles the added work."""
    small, medium, large = (count(size) for size in (6, 12, 24))
    assert large - medium <= 2.2 * (medium - small), (small, medium, large)


@pytest.mark.parametrize(
    "name",
    ["fold-scale", "sink-concat", "pack-matmul", "pack-dots", "lower-precision", "merge-rows"],
)
def test_passes_on_deep_graphs(name: str) -> None:
    def count(blocks: int) -> int:
        module = parse(network(blocks))
        run_passes(module, "set-target{cpu=znver4}")
        return calls(lambda: run_passes(module, name))

    count(1)
    assert_linear(count)


def test_buffers_in_memory() -> None:
    def count(steps: int) -> int:
        requests = [Request(64 << n % 3, n, n + 2 + n % 4) for n in range(10 * steps)]
        return calls(lambda: place(requests))

    assert_linear(count)
