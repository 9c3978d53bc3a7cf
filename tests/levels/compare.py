"""Run one model for several CPUs that this machine can execute, on the same inputs."""

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
"""Tolerance for sums in another order and without fused multiply-add, relative to the largest
value."""
FILLS = 0x00, 0xFF
"""Initial content of outputs and workspace, which must not affect results."""


def levels() -> list[str]:
    """Return a CPU for each instruction set that this machine has, the most basic first.

    Among those with byte dot products it is the last, which has the most other features.
    """
    names = runnable_targets()
    dots = [name for name in names if "avx512vnni" in MACHINES[name].capabilities]
    return [name for name in names if name not in dots[:-1]]


def findings(
    model: ModelProto, feeds: Mapping[str, np.ndarray], cpus: Sequence[str], exact: bool
) -> list[str]:
    """Return differences between CPUs and out-of-bounds writes; empty if there are none.

    Args:
        exact: whether integers must be equal; otherwise one in a hundred may differ by one, because
            floats are rounded to them.
    """
    found: list[str] = []
    expected: list[np.ndarray] | None = None
    for cpu in cpus:
        compiled = tcopt.compile(model, f"cpu:{cpu}")
        if not isinstance(compiled.program, Program) or compiled.program.signature is not None:
            return []
        if any(spec.dtype.kind not in "biufV" for spec in (*compiled.inputs, *compiled.outputs)):
            return []  # Strings are computed on the host.
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
    """Return how far results are from those of another CPU; empty if within tolerance."""
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
