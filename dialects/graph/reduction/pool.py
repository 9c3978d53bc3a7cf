"""Pooling over N spatial dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType, UnitAttr, f32, f64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import (
    FusionKind,
    Int,
    Ints,
    PoolKind,
    PoolKindAttr,
    flag,
    integer,
    ints,
)
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.stages import image_compute, tap_axes, widen, window_taps
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    element_type,
    is_float,
    lowest,
    shape_of,
    tensor,
)
from tcopt.dialects.graph.core.windows import (
    Window,
    positions_inside,
    view_windows,
    window_properties,
)
from tcopt.dialects.graph.reduction.reduce import ReduceOp
from tcopt.dialects.te import api as te
from tcopt.support.arithmetic.sizes import is_fixed


@irdl_op_definition
class PoolOp(GraphOp):
    """Maximum, mean or p-norm of windows of x [N, C, spatial...].

    The result type determines whether partial windows at the end count (ceil mode). An average
    divides by the number of input elements in the window; with `count_include_pad`, by the number
    of input and pad elements.
    """

    name = "graph.pool"
    FUSION: ClassVar[FusionKind] = FusionKind.COMPLEX_OUT_FUSABLE

    x = operand_def(TensorType)
    kind = prop_def(PoolKindAttr)
    kernel = prop_def(Ints)
    strides = opt_prop_def(Ints)
    pads = opt_prop_def(Ints)
    dilations = opt_prop_def(Ints)
    count_include_pad = opt_prop_def(UnitAttr)
    p = prop_def(Int, default_value=integer(2))
    result = result_def(TensorType)

    def __init__(
        self,
        x: SSAValue | Operation,
        *,
        kind: str,
        kernel: Sequence[int],
        strides: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        ceil_mode: bool = False,
        count_include_pad: bool = False,
        p: int = 2,
    ):
        value = SSAValue.get(x)
        properties = {
            "kind": PoolKindAttr(PoolKind(kind)),
            "kernel": ints(kernel),
            **window_properties(strides, pads, dilations),
            "count_include_pad": flag(count_include_pad),
            "p": integer(p),
        }
        shape = shape_of(value)
        _check_rank(shape, kernel)
        window = Window.of(
            kernel,
            None if strides is None else ints(strides),
            None if pads is None else ints(pads),
            None if dilations is None else ints(dilations),
        )
        output = window.output(shape[2:], ceil=ceil_mode)
        super().__init__([value], properties, tensor((*shape[:2], *output), element_type(value)))

    @property
    def window(self) -> Window:
        """Window of the pooling."""
        kernel = self.kernel.get_values()
        return Window.of(kernel, self.strides, self.pads, self.dilations, crops=True)

    def infer(self) -> Sequence[AnyTensor]:
        """Infer [N, C, positions...], with partial windows if the result type has them."""
        shape = shape_of(self.x)
        _check_rank(shape, self.kernel.get_values())
        kind = self.kind.data
        if kind is not PoolKind.MAX and not is_float(element_type(self.x)):
            raise VerifyException(f"{kind} pooling expects floats, got {element_type(self.x)}")
        window = self.window
        output = window.output(shape[2:])
        if self.shape[2:] != output:
            partial = window.output(shape[2:], ceil=True)
            output = partial if self.shape[2:] == partial else output
        return (tensor((*shape[:2], *output), element_type(self.x)),)

    @property
    def selects(self) -> bool:
        """Whether the op selects elements: it does if it is a maximum."""
        return self.kind.data is PoolKind.MAX

    @property
    def exceeds_halves(self) -> bool:
        """Whether results may exceed 16 bits: averages and norms may."""
        return not self.selects

    def work(self) -> int:
        """Return the operation count: one operation for each element of each window."""
        return math.prod(self.shape) * math.prod(self.kernel.get_values())

    def by_dimensions(self) -> Sequence[PoolOp] | None:
        """Split into windows along all dimensions but the last, then along the last one.

        None if that rounds more, or windows have one dimension. It reduces work because an element
        of the first result is shared by several windows of the second.
        """
        kind, element = self.kind.data, element_type(self.x)
        is_exact = kind is PoolKind.MAX or (kind is PoolKind.AVERAGE and element in (f32, f64))
        *outer, last = self.window.kernel
        if not is_exact or last == 1 or set(outer) <= {1}:
            return None
        extents, rank = shape_of(self.x), len(outer) + 1
        first = self._along(self.x, range(rank - 1), (*self.shape[:-1], extents[-1]))
        return (first, self._along(first.result, (rank - 1,), self.shape))

    def _along(self, x: SSAValue, dimensions: Sequence[int], shape: Sequence[int]) -> PoolOp:
        """Return a pooling with this window along `dimensions`, and single elements along the
        others."""
        window = self.window
        kernel, strides, low, high, dilations = (
            [n if d in dimensions else rest for d, n in enumerate(row)]
            for row, rest in (
                (window.kernel, 1),
                (window.strides, 1),
                (window.low, 0),
                (window.high, 0),
                (window.dilations, 1),
            )
        )
        moved = window_properties(strides, (*low, *high), dilations)
        kept = {k: v for k, v in self.properties.items() if k not in moved}
        properties = {**kept, **moved, "kernel": ints(kernel)}
        return PoolOp.create(
            operands=[x],
            properties={k: v for k, v in properties.items() if v is not None},
            result_types=[tensor(shape, self.type.element_type)],
        )

    def decompose(self) -> Sequence[Operation] | None:
        """Return a reduction over space, if one window covers all of it without padding."""
        window, extents = self.window, shape_of(self.x)[2:]
        covers = window.kernel == extents and set(window.dilations) == {1}
        if not covers or window.is_padded or self.kind.data is PoolKind.LP:
            return None
        kind = "max" if self.kind.data is PoolKind.MAX else "mean"
        return (ReduceOp(self.x, kind=kind, axes=range(2, 2 + len(extents)), keepdims=True),)

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        window, output = self.window, self.shape[2:]
        axes = tuple(range(-len(output), 0))
        kind = self.kind.data
        if kind is PoolKind.MAX:
            fill = lowest(element_type(self.x))
            return np.max(view_windows(x, window, output, fill), axis=axes)
        windows = view_windows(x, window, output, 0)
        if kind is PoolKind.LP:
            p = self.p.value.data
            return np.sum(np.abs(windows) ** p, axis=axes) ** (1 / p)
        counts = math.prod(np.meshgrid(*map(np.asarray, self.counts()), indexing="ij"))
        return np.sum(windows, axis=axes) / counts

    def counts(self) -> list[list[int]]:
        """Return the number of elements that an average counts.

        There is one number for each spatial dimension and position. The divisor of an average is
        the product over the dimensions.
        """
        return self.inside_counts(include_pad=self.count_include_pad is not None)

    def inside_counts(self, *, include_pad: bool = False) -> list[list[int]]:
        """Return, for each dimension and position, the number of data elements, optionally with
        pads."""
        dimensions = range(len(self.shape) - 2)
        return [self._counts_along(d, include_pad=include_pad) for d in dimensions]

    def _counts_along(self, d: int, *, include_pad: bool) -> list[int]:
        """Return `inside_counts` of one dimension."""
        window, extent, count = self.window, shape_of(self.x)[2 + d], self.shape[2 + d]
        low, high = window.low[d], window.high[d]
        first, last = (-low, extent + high) if include_pad else (0, extent)
        stride, dilation, kernel = window.strides[d], window.dilations[d], window.kernel[d]
        starts = range(-low - first, count * stride - low - first, stride)
        return [len(positions_inside(s, dilation, kernel, last - first)) for s in starts]

    def _uniform_count(self, d: int) -> int | None:
        """Return the number that an average counts along a dimension; None if it varies."""
        extents, positions = shape_of(self.x)[2:], self.shape[2:]
        include_pad = self.count_include_pad is not None
        if is_fixed((extents[d], positions[d])):
            counts = set(self._counts_along(d, include_pad=include_pad))
            return counts.pop() if len(counts) == 1 else None
        low, high = self.window.border(extents, positions)
        return self.window.kernel[d] if low[d] == high[d] == 0 else None

    def tensor_expression(self, x: te.Tensor) -> te.Tensor:
        """Return a reduction over the window with guarded reads, then a finishing stage."""
        window, kind = self.window, self.kind.data
        taps = tap_axes(window.kernel)
        fill = lowest(element_type(self.x)) if kind is PoolKind.MAX else 0
        low, high = window.border(x.shape[2:], self.shape[2:])
        inside = all(n == 0 for n in (*low, *high))

        def read(n: te.Axis, c: te.Axis, *places: te.Axis) -> te.Expr:
            taken = window_taps(places, taps, window.strides, window.dilations)
            at = (n, c, *(i - low if low else i for i, low in zip(taken, window.low, strict=True)))
            return x[at] if inside else x.read(at, default=fill)

        if kind is PoolKind.MAX:
            return image_compute(self.shape, lambda *a: te.max(read(*a), axis=taps), "max_pool")
        p = self.p.value.data if kind is PoolKind.LP else 1

        def term(*axes: te.Axis) -> te.Expr:
            value = widen(read(*axes))
            if kind is PoolKind.AVERAGE:
                return value
            return value * value if p == 2 else te.pow(te.abs(value), te.const(p, value.dtype))

        total = image_compute(self.shape, lambda *a: te.sum(term(*a), axis=taps), f"{kind}_pool")
        return self._finish(total, p)

    def _finish(self, total: te.Tensor, p: int) -> te.Tensor:
        element = self.type.element_type
        if self.kind.data is PoolKind.LP:
            root = te.const(1 / p, total.dtype)

            def power(*axes: te.Axis) -> te.Expr:
                value = total[axes]
                return te.cast(te.sqrt(value) if p == 2 else te.pow(value, root), element)

            return image_compute(self.shape, power, "root")
        rows = [self._uniform_count(d) for d in range(len(self.shape) - 2)]
        uniform = math.prod(count for count in rows if count is not None)
        varying = [d for d, count in enumerate(rows) if count is None]

        def divide(n: te.Axis, c: te.Axis, *places: te.Axis) -> te.Expr:
            count = te.const(uniform, total.dtype)
            for d in varying:
                count = count * self._count(d, places[d], total.dtype)
            return te.cast(total[(n, c, *places)] / count, element)

        return image_compute(self.shape, divide, "average")

    def _count(self, d: int, place: te.Axis, dtype: Attribute) -> te.Expr:
        """Return the number of elements counted along a dimension, as a function of the
        position."""
        window, extent = self.window, shape_of(self.x)[2 + d]
        include_pad = self.count_include_pad is not None
        first = -window.low[d] if include_pad else 0
        last = extent + window.high[d] if include_pad else extent
        start = place * window.strides[d] - window.low[d]
        step = window.dilations[d]
        if step == 1:
            end = te.minimum(te.cast(start + window.kernel[d], dtype), te.const(last, dtype))
            return end - te.maximum(te.cast(start, dtype), te.const(first, dtype))
        count = te.const(0, dtype)
        for tap in range(window.kernel[d]):
            at = start + tap * step
            inside = te.all(at >= first, at < last)
            count = count + te.select(inside, te.const(1, dtype), te.const(0, dtype))
        return count


def _check_rank(shape: Sequence[int], kernel: Sequence[int]) -> None:
    if len(shape) < 3 or len(kernel) != len(shape) - 2:
        raise VerifyException(
            f"a kernel of rank {len(kernel)} does not pool data of rank {len(shape)}"
        )
