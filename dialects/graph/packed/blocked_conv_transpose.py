"""Transposed convolution over channels in blocks, phase by phase."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.core.attributes import FusionKind, Ints, ints
from tcopt.dialects.graph.core.forms import CONTRACTION
from tcopt.dialects.graph.core.stages import narrow, pad_space, tap_axes
from tcopt.dialects.graph.core.types import AnyTensor, Array, shape_of, tensor
from tcopt.dialects.graph.core.windows import Window, view_windows, window_properties
from tcopt.dialects.te import api as te


@irdl_op_definition
class BlockedConvTransposeOp(ContractionOp):
    """Transposed convolution whose result is [N, O / b, spatial..., b].

    In each spatial dimension, every stride-th element from the j-th is one phase, a convolution of
    the data by taps of its own. Data is [N, C / a, spatial..., a], weights
    [O / b, phases..., C / a, taps..., a, b], with as many phases as the stride. Element
    `t * stride + j` is the sum over taps k of x[t + k + (j + start) // stride] times the weights of
    phase j, in data padded by `pads`.
    """

    name = "graph.blocked_conv_transpose"
    FUSION: ClassVar[FusionKind] = FusionKind.COMPLEX_OUT_FUSABLE
    COUNTS_ON: ClassVar[str] = CONTRACTION

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    starts = prop_def(Ints)
    pads = opt_prop_def(Ints)
    result = result_def(TensorType)

    def __init__(
        self,
        x: SSAValue | Operation,
        w: SSAValue | Operation,
        *,
        starts: Sequence[int],
        pads: Sequence[int] | None = None,
        result_element: Attribute | None = None,
    ):
        pads_of = window_properties(None, pads, None)["pads"]
        super().__init__(
            [x, w], {"starts": ints(starts), "pads": pads_of, "result_element": result_element}
        )

    @property
    def stores_anywhere(self) -> bool:
        """False: results are interleaved from phases, not completed in registers."""
        return False

    @property
    def spatial_rank(self) -> int:
        """Number of spatial dimensions."""
        return len(shape_of(self.x)) - 3

    @property
    def phases(self) -> tuple[int, ...]:
        """Stride of each spatial dimension, which is its number of phases."""
        return tuple(shape_of(self.w)[1 : 1 + self.spatial_rank])

    @property
    def taps(self) -> tuple[int, ...]:
        """Taps of a phase in each spatial dimension."""
        return tuple(shape_of(self.w)[2 + self.spatial_rank : -2])

    def offset(self, axis: int, phase: int) -> int:
        """Return the offset of a phase's windows from the first phase's."""
        return (phase + self.starts.get_values()[axis]) // self.phases[axis]

    @property
    def window(self) -> Window:
        """Window of all elements that the phases of one position read."""
        kernel = [
            taps + self.offset(axis, self.phases[axis] - 1) for axis, taps in enumerate(self.taps)
        ]
        return Window.of(kernel, None, self.pads, None, crops=True)

    @property
    def places(self) -> tuple[int, ...]:
        """Number of elements of a phase in each spatial dimension."""
        return self.window.output(shape_of(self.x)[2:-1])

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [N, O / b, positions * strides..., b]."""
        x, w, rank = shape_of(self.x), shape_of(self.w), len(shape_of(self.x)) - 3
        if rank < 1 or len(w) != 2 * rank + 4:
            raise VerifyException(f"data of rank {len(x)} does not fit weights of rank {len(w)}")
        if (x[1], x[-1]) != (w[1 + rank], w[-2]):
            raise VerifyException(f"channels of data {list(x)} and weights {list(w)} differ")
        starts = self.starts.get_values()
        if len(starts) != rank or any(
            not 0 <= start < stride for start, stride in zip(starts, self.phases, strict=True)
        ):
            raise VerifyException(f"starts {list(starts)} are not phases of {list(self.phases)}")
        output = [n * stride for n, stride in zip(self.places, self.phases, strict=True)]
        return (tensor((x[0], w[0], *output, w[-1]), self.sum_element()),)

    def work(self) -> int:
        """Return the operation count: two operations for each product."""
        w, rank = shape_of(self.w), self.spatial_rank
        return 2 * math.prod(self.shape) * math.prod(w[1 + rank : -1])

    def compute(self, x: Array, w: Array) -> Array:
        """Evaluate with numpy: compute each phase and store it at its positions."""
        rank, places = self.spatial_rank, self.places
        data = np.moveaxis(x, -1, 2).reshape(x.shape[0], -1, *x.shape[2:-1])
        windows = view_windows(data, self.window, places, 0)
        at, taps = "xyz"[:rank], "uvw"[:rank]
        result = np.empty(self.shape, np.result_type(x, w))
        for phase in product(*map(range, self.phases)):
            first = [self.offset(axis, j) for axis, j in enumerate(phase)]
            own = [slice(o, o + n) for o, n in zip(first, self.taps, strict=True)]
            weights = w[(slice(None), *phase)]
            flat = np.moveaxis(weights, -2, 2).reshape(w.shape[0], -1, *self.taps, w.shape[-1])
            to = [slice(j, None, s) for j, s in zip(phase, self.phases, strict=True)]
            result[(slice(None), slice(None), *to)] = np.einsum(
                f"nc{at}{taps},oc{taps}b->no{at}b",
                windows[(..., *own)],
                flat,
                optimize=True,
            )
        return result

    def tensor_expression(self, x: te.Tensor, w: te.Tensor) -> te.Tensor:
        """Return a pad stage if there are pads, a reduction with the phases as axes, and a stage
        that interleaves them."""
        window, rank, phases = self.window, self.spatial_rank, self.phases
        starts = self.starts.get_values()
        if window.is_padded:
            extents = [n + k - 1 for n, k in zip(self.places, window.kernel, strict=True)]
            x = pad_space(x, window.low, extents)
        skipped = [0 if window.is_padded else -low for low in window.low]
        taps, inner = tap_axes(self.taps), te.reduce_axis(w.shape[-2], "ri")
        axes = [te.reduce_axis(w.shape[1 + rank], "rc"), *taps, inner]

        def body(n: te.Axis, o: te.Axis, *rest: te.Axis) -> Any:
            own, places, lane = rest[:rank], rest[rank:-1], rest[-1]
            at: list[Any] = []
            rows = zip(places, taps, own, skipped, starts, phases, strict=True)
            for place, tap, phase, crop, start, stride in rows:
                later = (phase + start) // stride if start else 0
                at.append(place + tap + later + crop)
            left = x[(n, axes[0], *at, inner)]
            right = w[(o, *own, axes[0], *taps, inner, lane)]
            return te.sum(self.widened(left) * self.widened(right), axis=axes)

        shape = (x.shape[0], w.shape[0], *phases, *self.places, w.shape[-1])
        sums = narrow(te.compute(shape, body, name="conv_transpose"), self.type.element_type)

        def weave(n: te.Axis, o: te.Axis, *rest: te.Axis) -> te.Expr:
            own: list[Any] = []
            at: list[Any] = []
            for place, stride in zip(rest[:-1], phases, strict=True):
                own.append(place % stride if stride > 1 else 0)
                at.append(place // stride if stride > 1 else place)
            return sums[(n, o, *own, *at, rest[-1])]

        return te.compute(self.shape, weave, name="weave")
