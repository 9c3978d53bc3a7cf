"""Kernel-level modules for tests: parsing, and elementwise kernels around given ops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from tcopt.backends.llvm.jit import compile_module
from tcopt.support.registries.registry import all_dialects

KERNEL_DIALECTS = ("builtin", "func", "scf", "memref", "arith", "math", "vector", "target")


def kernel_context() -> Context:
    """Return a context with the dialects of the kernel level."""
    context = Context()
    factories = all_dialects()
    for name in KERNEL_DIALECTS:
        context.register_dialect(name, factories[name])
    return context


def parse_kernel(text: str) -> ModuleOp:
    """Parse and verify a module."""
    module = Parser(kernel_context(), text).parse_module()
    module.verify()
    return module


def elementwise(
    body: str, inputs: Sequence[str], output: str, size: int = 64, lanes: int = 0
) -> str:
    """Return a kernel `@k` that computes `%r` from `%a`, `%b`, ... for each element.

    `body` may use the types `$0`, `$1`, ... (of the inputs) and `$r`. With `lanes` it works on
    vectors of that many elements, with 0 on scalars.
    """
    names = "abcdef"
    memrefs = [f"memref<{size}x{type}>" for type in (*inputs, output)]
    values = [f"vector<{lanes}x{type}>" if lanes else type for type in (*inputs, output)]
    for number, value in enumerate(values[:-1]):
        body = body.replace(f"${number}", value)
    body = body.replace("$r", values[-1])
    load, store = ("vector.load", "vector.store") if lanes else ("memref.load", "memref.store")
    arguments = [f"%m{i}: {type}" for i, type in enumerate(memrefs)]
    loads = [
        f"%{names[i]} = {load} %m{i}[%i] : {memrefs[i]}" + (f", {values[i]}" if lanes else "")
        for i in range(len(inputs))
    ]
    last = len(inputs)
    stored = f"{store} %r, %m{last}[%i] : {memrefs[last]}" + (f", {values[last]}" if lanes else "")
    newline = "\n    "
    return f"""
func.func private @k({", ".join(arguments)}) {{
  %begin = arith.constant 0 : index
  %end = arith.constant {size} : index
  %step = arith.constant {lanes or 1} : index
  scf.for %i = %begin to %end step %step {{
    {newline.join(loads)}
    {body}
    {stored}
  }}
  func.return
}}
"""


def run_elementwise(
    body: str,
    arrays: Sequence[np.ndarray],
    inputs: Sequence[str],
    output: str,
    out_dtype: object,
    lanes: int = 0,
) -> np.ndarray:
    """Compile an elementwise kernel and run it on arrays of one size."""
    size = arrays[0].size
    module = parse_kernel(elementwise(body, inputs, output, size, lanes))
    result = np.zeros(size, dtype=out_dtype)  # pyright: ignore
    compile_module(module).function("k")(*arrays, result)
    return result


def aligned(shape: Sequence[int], dtype: object = np.float32) -> np.ndarray:
    """Return an uninitialised array aligned to 64 bytes."""
    kind = np.dtype(dtype)  # pyright: ignore
    size = int(np.prod(shape)) * kind.itemsize
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(kind).reshape(shape)
