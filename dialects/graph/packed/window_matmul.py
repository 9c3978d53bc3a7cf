"""Convolutions as matrix products of weights and the elements of windows."""

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
from tcopt.dialects.graph.core.attributes import FusionKind, Ints, ints, values_of
from tcopt.dialects.graph.core.forms import CONTRACTION
from tcopt.dialects.graph.core.stages import image_compute, narrow
from tcopt.dialects.graph.core.types import AnyTensor, Array, shape_of, tensor
from tcopt.dialects.graph.core.windows import Window, view_windows, window_properties
from tcopt.dialects.te import api as te


@irdl_op_definition
class WindowMatmulOp(ContractionOp):
    """Convolution [N, P * O, positions...] of x [N, C, spatial...] with w [P, O, C * taps].

    The op is an implicit matrix product: the weights are multiplied by a matrix with one row for
    each weight of a filter and one column for each window of all images. The matrix is a stage of
    the tensor expression, and schedules compute a tile of it just before its use.

    P is 1 without `phases`. Otherwise it is the number of phases of all dimensions, and the windows
    of phase j in a dimension start (j + start) div phases later, as in a transposed convolution by
    phases.
    """

    name = "graph.window_matmul"
    FUSION: ClassVar[FusionKind] = FusionKind.COMPLEX_OUT_FUSABLE
    COUNTS_ON: ClassVar[str] = CONTRACTION

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    kernel = prop_def(Ints)
    strides = opt_prop_def(Ints)
    pads = opt_prop_def(Ints)
    dilations = opt_prop_def(Ints)
    phases = opt_prop_def(Ints)
    starts = opt_prop_def(Ints)
    result = result_def(TensorType)

    def __init__(
        self,
        x: SSAValue | Operation,
        w: SSAValue | Operation,
        *,
        kernel: Sequence[int],
        strides: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        phases: Sequence[int] | None = None,
        starts: Sequence[int] | None = None,
        result_element: Attribute | None = None,
    ):
        """Each list has one entry per spatial dimension; `pads` has the beginnings first."""
        some = phases is not None and max(phases) > 1
        super().__init__(
            [x, w],
            {
                "kernel": ints(kernel),
                **window_properties(strides, pads, dilations),
                "phases": ints(phases) if phases is not None and some else None,
                "starts": ints(starts) if starts is not None and some and any(starts) else None,
                "result_element": result_element,
            },
        )

    @property
    def phase_counts(self) -> tuple[int, ...]:
        """Number of phases in each spatial dimension."""
        return values_of(self.phases) or (1,) * len(self.kernel)

    def offset(self, axis: int, phase: Any) -> Any:
        """Return the offset of a phase's windows from the first phase's."""
        starts, count = values_of(self.starts), self.phase_counts[axis]
        # Without a start, all phases have the same windows.
        return (phase + starts[axis]) // count if starts is not None and starts[axis] else 0

    @property
    def window(self) -> Window:
        """Window of all elements that the phases of one position read."""
        taps = self.kernel.get_values()
        window = Window.of(taps, self.strides, self.pads, self.dilations, crops=True)
        more = [self.offset(axis, count - 1) for axis, count in enumerate(self.phase_counts)]
        if not any(more):
            return window
        kernel = [n + later for n, later in zip(taps, more, strict=True)]
        return Window.of(kernel, self.strides, self.pads, self.dilations, crops=True)

    @property
    def places(self) -> tuple[int, ...]:
        """Number of window positions in each spatial dimension."""
        return self.window.output(shape_of(self.x)[2:])

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [N, P * O, positions...]."""
        x, w, taps, counts = (
            shape_of(self.x),
            shape_of(self.w),
            self.kernel.get_values(),
            self.phase_counts,
        )
        rank = len(x) - 2
        if not rank == len(taps) == len(counts) or rank < 1 or min(counts) < 1:
            raise VerifyException(f"kernel and phases do not fit data of rank {len(x)}")
        starts = values_of(self.starts) or (0,) * rank
        if len(starts) != rank or any(
            not 0 <= start < count for start, count in zip(starts, counts, strict=True)
        ):
            raise VerifyException(f"starts {list(starts)} are not phases of {list(counts)}")
        if any(starts) and max(self.window.dilations) > 1:
            raise VerifyException("windows of phases are not dilated")
        phases, depth = math.prod(counts), x[1] * math.prod(taps)
        if len(w) != 3 or (w[0], w[2]) != (phases, depth):
            raise VerifyException(f"weights {list(w)} should be [{phases}, O, {depth}]")
        return (tensor((x[0], phases * w[1], *self.places), self.sum_element()),)

    def work(self) -> int:
        """Return the operation count: two operations for each product."""
        return 2 * math.prod(self.shape) * shape_of(self.w)[2]

    def compute(self, x: Array, w: Array) -> Array:
        """Evaluate with numpy: one matrix product for each phase."""
        places, rank, parts = self.places, len(self.kernel), list[Array]()
        windows = view_windows(x, self.window, places, 0)
        for index, phase in enumerate(product(*map(range, self.phase_counts))):
            first = [self.offset(axis, own) for axis, own in enumerate(phase)]
            taps = zip(first, self.kernel.get_values(), strict=True)
            own = windows[(..., *(slice(o, o + n) for o, n in taps))]
            # [N, C, positions..., taps...] to [N, C, taps..., positions...].
            order = (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))
            matrix = own.transpose(order).reshape(x.shape[0], w.shape[2], math.prod(places))
            parts.append(np.matmul(w[index], matrix))
        return np.concatenate(parts, 1).reshape(self.shape)

    def tensor_expression(self, x: te.Tensor, w: te.Tensor) -> te.Tensor:
        """Return a stage of the windows' elements [P, C * taps, N * positions], their product with
        the weights, and a stage of images."""
        window, places, counts = self.window, self.places, self.phase_counts
        taps, phases, rows = self.kernel.get_values(), w.shape[0], w.shape[1]
        images = (x.shape[0], *places)

        def element(phase: te.Axis, k: te.Axis, pixel: te.Axis) -> te.Expr:
            own = _digits(phase, counts)
            channel, *tap = _digits(k, (x.shape[1], *taps))
            image, *place = _digits(pixel, images)
            at: list[Any] = []
            axes = zip(place, window.strides, tap, window.dilations, window.low, strict=True)
            for axis, (p, stride, t, dilation, low) in enumerate(axes):
                at.append(p * stride + t * dilation + self.offset(axis, own[axis]) - low)
            return x.read((image, channel, *at), default=0)

        pixels, k = math.prod(images), te.reduce_axis(w.shape[2], "k")
        windows = te.compute((phases, w.shape[2], pixels), element, name="windows")

        def body(phase: te.Axis, o: te.Axis, pixel: te.Axis) -> Any:
            left, right = w[phase, o, k], windows[phase, k, pixel]
            return te.sum(self.widened(left) * self.widened(right), axis=k)

        sums = te.compute((phases, rows, pixels), body, name="window_matmul")

        def image(n: te.Axis, c: te.Axis, *place: te.Axis) -> te.Expr:
            pixel: Any = n
            for index, extent in zip(place, places, strict=True):
                pixel = pixel * extent + index
            return sums[(*_digits(c, (phases, rows)), pixel)]

        return narrow(image_compute(self.shape, image, "image"), self.type.element_type)


def _digits(index: Any, extents: Sequence[int]) -> list[Any]:
    """Return the indices along dimensions of the given extents, the last of which is fastest."""
    found: list[Any] = []
    rest = index
    for extent in reversed(extents[1:]):
        found.append(rest % extent if extent > 1 else 0)
        rest = rest // extent if extent > 1 else rest
    found.append(rest if extents[0] > 1 else 0)
    return found[::-1]
