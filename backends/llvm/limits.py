"""Peak performance of this machine, measured with generated code.

Compute: independent fused multiply-adds on registers, nothing else. Bandwidth: one buffer is
copied to another, each of half the footprint, so the result is that of the cache level which holds
a kernel's data at that footprint.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np

from tcopt.backends.llvm.jit import NativeFunction, compile_module
from tcopt.backends.llvm.machine.host import host_target
from tcopt.support.pipelines.running import new_context
from tcopt.support.syntax.parsing import TextParser

_CHAINS = 12
"""Independent accumulators: enough for two units with latency five, but not too many to spill."""
_STEPS = 100_000
_FLOAT_BITS = 32
_COPIED = 1 << 24
"""Minimum bytes copied per call, which makes the call overhead negligible."""


def peak_gflops(threads: int = 1, seconds: float = 0.01) -> float:
    """Return the peak float32 GFLOP/s of `threads` cores; a multiply-add is two operations."""
    function, lanes = _multiply_adds()
    outs = [np.zeros((_CHAINS, lanes), np.float32) for _ in range(threads)]
    work = 2 * _CHAINS * lanes * _STEPS

    def best(out: np.ndarray) -> float:
        return work / _least_seconds(lambda: function(out), seconds) / 1e9

    if threads == 1:
        return best(outs[0])
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(best, outs))


def copy_gbps(footprint: int, threads: int = 1, seconds: float = 0.01) -> float:
    """Return the GB/s, reads plus writes, of copies with a footprint of `footprint` bytes.

    Args:
        threads: threads among which the footprint is split.
    """
    lanes = host_target().vector_bits // _FLOAT_BITS
    count = max(footprint // (8 * threads * lanes), 1) * lanes
    repeats = max(_COPIED // (4 * count), 1)
    function = _copy(count, lanes, repeats)
    buffers = [np.ones((2, count), np.float32) for _ in range(threads)]

    def best(pair: np.ndarray) -> float:
        return (
            8 * count * repeats / _least_seconds(lambda: function(pair[0], pair[1]), seconds) / 1e9
        )

    if threads == 1:
        return best(buffers[0])
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(best, buffers))


def _least_seconds(run: Callable[[], object], limit: float) -> float:
    run()
    least = float("inf")
    end = time.perf_counter() + limit
    while True:
        start = time.perf_counter()
        run()
        now = time.perf_counter()
        least = min(least, now - start)
        if now >= end:
            return least


@cache
def _multiply_adds() -> tuple[NativeFunction, int]:
    """Return a function that runs `_CHAINS` chains of `_STEPS` multiply-adds, and its lanes."""
    lanes = host_target().vector_bits // _FLOAT_BITS
    vector = f"vector<{lanes}xf32>"
    names = [f"%a{i}" for i in range(_CHAINS)]
    carried = ", ".join(f"{name} = %zero" for name in names)
    types = ", ".join([vector] * _CHAINS)
    results = ", ".join(f"%r{i}" for i in range(_CHAINS))
    steps = "\n".join(
        f"    %f{i} = vector.fma %x, %y, {name} : {vector}" for i, name in enumerate(names)
    )
    stores = "\n".join(
        f"  %i{i} = arith.constant {i} : index\n"
        f"  vector.store %r{i}, %out[%i{i}, %c0] : memref<{_CHAINS}x{lanes}xf32>, {vector}"
        for i in range(_CHAINS)
    )
    text = f"""
func.func @main(%out: memref<{_CHAINS}x{lanes}xf32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %end = arith.constant {_STEPS} : index
  %x = vector.load %out[%c0, %c0] : memref<{_CHAINS}x{lanes}xf32>, {vector}
  %y = vector.load %out[%c1, %c0] : memref<{_CHAINS}x{lanes}xf32>, {vector}
  %zero = vector.load %out[%c0, %c0] : memref<{_CHAINS}x{lanes}xf32>, {vector}
  {results} = scf.for %i = %c0 to %end step %c1 iter_args({carried}) -> ({types}) {{
{steps}
    scf.yield {", ".join(f"%f{i}" for i in range(_CHAINS))} : {types}
  }}
{stores}
  func.return
}}"""
    return _compiled(text), lanes


@cache
def _copy(count: int, lanes: int, repeats: int) -> NativeFunction:
    """Return a function that copies `count` floats `repeats` times, `lanes` at a time."""
    vector = f"vector<{lanes}xf32>"
    text = f"""
func.func @main(%from: memref<{count}xf32>, %to: memref<{count}xf32>) {{
  %c0 = arith.constant 0 : index
  %step = arith.constant {lanes} : index
  %end = arith.constant {count} : index
  %c1 = arith.constant 1 : index
  %times = arith.constant {repeats} : index
  scf.for %time = %c0 to %times step %c1 {{
    scf.for %i = %c0 to %end step %step {{
      %v = vector.load %from[%i] : memref<{count}xf32>, {vector}
      vector.store %v, %to[%i] : memref<{count}xf32>, {vector}
    }}
  }}
  func.return
}}"""
    return _compiled(text)


def _compiled(text: str) -> NativeFunction:
    module = TextParser(new_context(), text).parse_module()
    return compile_module(module).function("main")
