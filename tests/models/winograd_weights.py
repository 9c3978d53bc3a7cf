"""Weights of Winograd convolutions."""

from __future__ import annotations

import numpy as np

from tcopt.dialects.graph import ConstantOp
from tcopt.dialects.graph.core.types import like


def constant(array):
    """Return a value with an array's type, for ops that are evaluated on arrays."""
    return ConstantOp.weight("v", like(array)).results[0]


def in_groups(weights, group):
    """Reshape weights [..., a, b] to [..., a / group, b, group]; unchanged for groups of one."""
    if group == 1:
        return weights
    *lead, inner, outer = weights.shape
    apart = weights.reshape(*lead, inner // group, group, outer)
    return np.ascontiguousarray(apart.swapaxes(-1, -2))


def of_stride(w, step):
    """Rearrange weights [O, C, k, k, a, b] for channels made by a stride: [O, C s^2, r, r, a,
    b]."""
    outputs, inputs, taps, _, *block = w.shape
    taps //= step
    apart = w.reshape(outputs, inputs, taps, step, taps, step, *block)
    apart = apart.transpose(0, 1, 3, 5, 2, 4, 6, 7)
    return apart.reshape(outputs, inputs * step * step, taps, taps, *block)


def of_phases(w):
    """Rearrange weights [O, p, p, C, r, r, a, b] of phases to one filter: [O, C, p r, p r, a,
    b]."""
    outputs, phases, _, inputs, taps, _, *block = w.shape
    return w.transpose(0, 3, 1, 4, 2, 5, 6, 7).reshape(
        outputs, inputs, *[phases * taps] * 2, *block
    )
