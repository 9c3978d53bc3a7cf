"""One model on several CPUs that this machine can stand for, on the same inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import ModelProto

import tcopt
from levels.guarded import OutsideError, run_guarded
from tcopt.backends.llvm.machine.host import runnable_targets
from tcopt.runtime.program import Program
from tcopt.targets.cpu import MACHINES

TOLERANCE = 1e-4
"""Sums in another order and products without fused additions, as a part of the largest value."""
FILLS = 0x00, 0xFF
"""What outputs and workspace hold before; results must not depend on it."""


def levels() -> list[str]:
    """A CPU for each set of instructions that this machine has, the plainest first.

    Of those with instructions for products of bytes it is the last, which has most besides.
    """
    names = runnable_targets()
    dots = [name for name in names if "avx512vnni" in MACHINES[name].capabilities]
    return [name for name in names if name not in dots[:-1]]


def findings(
    model: ModelProto, feeds: Mapping[str, np.ndarray], cpus: Sequence[str], exact: bool
) -> list[str]:
    """What differs between CPUs, or is written outside of a buffer; nothing if all is well.

    Args:
        exact: whether integers are equal; otherwise one of a hundred may be off by one, as real
            numbers are rounded to them.
    """
    found: list[str] = []
    expected: list[np.ndarray] | None = None
    for cpu in cpus:
        compiled = tcopt.compile(model, f"cpu:{cpu}")
        if not isinstance(compiled.program, Program) or compiled.program.signature is not None:
            return []
        if any(spec.dtype.kind not in "biufV" for spec in (*compiled.inputs, *compiled.outputs)):
            return []  # Strings are the host's.
        values = [np.ascontiguousarray(feeds[spec.name]) for spec in compiled.inputs]
        for fill in FILLS:
            try:
                results = run_guarded(compiled.program, values, fill)
            except OutsideError as error:
                found.append(f"{cpu}: {error}")
                continue
            if expected is None:
                expected = results
            for name, ours, first in zip(compiled.outputs, results, expected, strict=True):
                text = difference(ours, first, exact)
                if text:
                    found.append(f"{cpu}, filled with {fill:#x}: {name.name} {text}")
    return found


def difference(ours: np.ndarray, first: np.ndarray, exact: bool) -> str:
    """How far results are from those of another CPU, nothing if near enough."""
    if ours.dtype.kind in "biu":
        apart = ours != first
        wrong = int(apart.sum())
        if not wrong:
            return ""
        step = int(np.abs(ours.astype(np.int64) - first.astype(np.int64)).max())
        if not exact and step <= 1 and wrong <= max(1, ours.size // 100):
            return ""
        at = tuple(int(n) for n in np.argwhere(apart)[0])
        return f"{wrong} of {ours.size} integers differ, by up to {step}, first at {at}"
    one, other = ours.astype(np.float64), first.astype(np.float64)
    if not np.array_equal(np.isnan(one), np.isnan(other)):
        return "NaN in other places"
    finite = np.isfinite(one) & np.isfinite(other)
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True):
        return "infinite in other places"
    scale = max(1.0, float(np.abs(other[finite]).max(initial=0)))
    epsilon = max(TOLERANCE, 8 * float(np.finfo(ours.dtype).eps)) if ours.dtype.kind == "f" else 0.1
    error = float(np.abs(one[finite] - other[finite]).max(initial=0)) / scale
    return "" if error <= epsilon else f"differs by {error:.2g} of the largest value"
