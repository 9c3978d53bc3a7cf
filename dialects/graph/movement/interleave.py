"""Interleaving of the phases of an image, the last step of a transposed convolution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import (
    Extents,
    Int,
    Ints,
    extents_attr,
    extents_in,
    integer,
    ints,
    values_of,
)
from tcopt.dialects.graph.core.types import AnyTensor, Array, element_type, shape_of, tensor
from tcopt.dialects.graph.movement.shape import MovementOp
from tcopt.dialects.te import api as te


@irdl_op_definition
class InterleaveOp(MovementOp):
    """Images [N, C, output..., rest...] from phases x [N, phases * C, spatial..., rest...].

    Each spatial dimension has a stride s, and the product of the strides is the number of phases.
    With q = starts + index, an output element is the element q div s of phase q mod s; phases are
    numbered with the last dimension fastest. Phases are the outer part of x's channels, or with
    `groups`, of each of that many equal groups of channels. If x holds only the first `kept` phases
    of a dimension, elements of the others are zero.
    """

    name = "graph.interleave"

    strides = prop_def(Ints)
    starts = prop_def(Ints)
    output = prop_def(Extents)
    groups = prop_def(Int, default_value=integer(1))
    kept = opt_prop_def(Ints)

    def __init__(
        self,
        x: SSAValue | Operation,
        *,
        strides: Sequence[int],
        starts: Sequence[int],
        output: Sequence[int],
        groups: int = 1,
        kept: Sequence[int] | None = None,
    ):
        """Each list has one entry per spatial dimension; `output` holds extents."""
        all_kept = kept is None or tuple(kept) == tuple(strides)
        super().__init__(
            [x],
            {
                "strides": ints(strides),
                "starts": ints(starts),
                "output": extents_attr(output),
                "groups": integer(groups),
                "kept": None if kept is None or all_kept else ints(kept),
            },
        )

    @property
    def kept_phases(self) -> tuple[int, ...]:
        """Number of phases in each dimension that x holds."""
        return values_of(self.kept) or self.strides.get_values()

    @property
    def phases(self) -> int:
        """Number of channels of x for each channel of the result."""
        return math.prod(self.kept_phases)

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [N, C, output..., rest...]."""
        shape, strides = shape_of(self.x), self.strides.get_values()
        starts, output, rank = self.starts.get_values(), extents_in(self.output), len(strides)
        if not rank == len(starts) == len(output) or len(shape) < 2 + rank:
            raise VerifyException(f"strides, starts and output do not fit {self.x.type}")
        if min(strides) < 1 or min(starts) < 0 or any(n < 1 for n in output):
            raise VerifyException("strides and output should be at least 1, starts at least 0")
        kept, groups = self.kept_phases, self.groups.value.data
        if len(kept) != rank or any(not 0 < k <= s for k, s in zip(kept, strides, strict=True)):
            raise VerifyException(f"{list(kept)} are not phases of strides {list(strides)}")
        if groups < 1 or shape[1] % (self.phases * groups):
            each = f" in {groups} groups" if groups > 1 else ""
            raise VerifyException(f"{shape[1]} channels do not hold {self.phases} phases{each}")
        rows = zip(shape[2 : 2 + rank], strides, starts, output, strict=True)
        for axis, (extent, stride, start, count) in enumerate(rows):
            if start + count > extent * stride:
                raise VerifyException(f"{count} elements from {start} exceed dimension {axis}")
        result = (shape[0], shape[1] // self.phases, *output, *shape[2 + rank :])
        return (tensor(result, element_type(self.x)),)

    def compute(self, x: Array) -> Array:
        """Evaluate with numpy: interleave whole images, then crop."""
        strides, rank = self.strides.get_values(), len(self.strides)
        n, _, *spatial = x.shape[: 2 + rank]
        groups, kept = self.groups.value.data, self.kept_phases
        parts = x.reshape(n, groups, *kept, -1, *x.shape[2:])
        if kept != strides:
            room = [(0, s - k) for k, s in zip(kept, strides, strict=True)]
            parts = np.pad(parts, [(0, 0)] * 2 + room + [(0, 0)] * (x.ndim - 1))
        parts = np.moveaxis(parts, 1, rank + 1).reshape(n, *strides, -1, *x.shape[2:])
        order = [0, rank + 1]
        for axis in range(rank):
            order += [rank + 2 + axis, 1 + axis]
        order += range(2 * rank + 2, parts.ndim)
        extents = [extent * stride for extent, stride in zip(spatial, strides, strict=True)]
        whole = parts.transpose(order).reshape(n, self.shape[1], *extents, *x.shape[2 + rank :])
        rows = zip(self.starts.get_values(), extents_in(self.output), strict=True)
        return whole[(slice(None), slice(None), *(slice(s, s + count) for s, count in rows))]

    def tensor_expression(self, x: te.Tensor) -> te.Tensor:
        """Return one stage that computes the phase of each position."""
        strides, rank = self.strides.get_values(), len(self.strides)
        kept, groups = self.kept_phases, self.groups.value.data
        channels = self.shape[1] // groups

        def body(n: te.Axis, c: te.Axis, *rest: te.Axis) -> te.Expr:
            phase: Any = 0
            at: list[Any] = []
            held: list[te.Expr] = []
            rows = zip(rest[:rank], strides, self.starts.get_values(), kept, strict=True)
            for place, stride, start, count in rows:
                moved: Any = place + start
                if count < stride:
                    held.append((moved % stride) < count)
                if stride > 1:
                    phase = phase * count + (moved % stride if count > 1 else 0)
                    moved = moved // stride
                at.append(moved)
            channel: Any = phase * channels + c
            if groups > 1:
                outer = c // channels * (self.phases * channels)
                channel = outer + phase * channels + c % channels
            if not held:
                return x[(n, channel, *at, *rest[rank:])]
            # The computed channel of a missing phase may be out of bounds.
            value = x.read((n, channel, *at, *rest[rank:]), default=0)
            return te.select(te.all(*held), value, te.const(0, x.dtype))

        return te.compute(self.shape, body, name="interleave")
