"""Reductions over axes, argmax and argmin."""

from __future__ import annotations

import math
import operator
from abc import ABC
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType, UnitAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import (
    Extremum,
    ExtremumAttr,
    FusionKind,
    Int,
    Ints,
    ReduceKind,
    ReduceKindAttr,
    flag,
    integer,
    ints,
)
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.stages import Indices, narrow, reduce_stage, widen
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    element_type,
    is_float,
    normalize_axis,
    shape_of,
    tensor,
)
from tcopt.dialects.graph.movement.shape import ReshapeOp
from tcopt.dialects.graph.reduction.reduction_parts import (
    OF_PARTS,
    combines_exactly,
    even_parts,
    longest_axis,
)
from tcopt.dialects.te import api as te
from tcopt.support.arithmetic.sizes import maximum, minimum


def _mean(x: Array, **options: Any) -> Array:
    """Return the mean; NaN for no elements, without numpy's warning."""
    if x.size:
        return np.mean(x, **options)
    total: Array = np.add.reduce(x.astype(np.float64), **options)
    return np.full_like(total, np.nan)


# For numpy: function applied to each element, reduction (sum by default), function of the result.
_BEFORE: dict[ReduceKind, Callable[[Array], Array]] = {
    ReduceKind.L1: np.abs,
    ReduceKind.L2: np.square,
    ReduceKind.SUM_SQUARE: np.square,
}
_REDUCE: dict[ReduceKind, Callable[..., Array]] = {
    ReduceKind.MEAN: _mean,
    ReduceKind.MAX: np.max,
    ReduceKind.MIN: np.min,
    ReduceKind.PROD: np.prod,
}
_AFTER: dict[ReduceKind, Callable[[Array], Array]] = {
    ReduceKind.L2: np.sqrt,
    ReduceKind.LOG_SUM: np.log,
}

# Kinds that reduce sizes to a size.
_OF_SIZES: dict[ReduceKind, Callable[[Any, Any], Any]] = {
    ReduceKind.SUM: operator.add,
    ReduceKind.PROD: operator.mul,
    ReduceKind.MAX: maximum,
    ReduceKind.MIN: minimum,
}

# Kinds whose reduction of a single element is that element.
_KEEPS_SINGLE = frozenset(
    {ReduceKind.SUM, ReduceKind.MEAN, ReduceKind.MAX, ReduceKind.MIN, ReduceKind.PROD}
)


def reduced_shape(shape: Sequence[int], axes: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    """Return the shape after reducing axes."""
    if keepdims:
        return tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
    return tuple(extent for axis, extent in enumerate(shape) if axis not in axes)


class ReductionOp(GraphOp, ABC):
    """Base class of ops that combine elements; injective producers fuse into it."""

    FUSION: ClassVar[FusionKind] = FusionKind.REDUCTION

    x = operand_def(TensorType)
    result = result_def(TensorType)

    def work(self) -> int:
        """Return the operation count: one operation for each input element."""
        return math.prod(shape_of(self.x))

    def part_counts(self) -> Sequence[int]:
        """Return the numbers of parts into which `in_parts` can divide each reduction."""
        return ()

    def in_parts(self, count: int) -> Sequence[Operation] | None:
        """Return ops that reduce `count` parts separately, and then their results."""
        del count
        return None


@irdl_op_definition
class ReduceOp(ReductionOp):
    """Reduce over axes (sorted, non-negative), which are dropped, or kept as 1 with `keepdims`.

    Over no elements, sum and prod return their identity, max and min the type's bounds.
    """

    name = "graph.reduce"

    kind = prop_def(ReduceKindAttr)
    axes = prop_def(Ints)
    keepdims = opt_prop_def(UnitAttr)

    def __init__(
        self,
        x: SSAValue | Operation,
        *,
        kind: str,
        axes: Sequence[int],
        keepdims: bool = False,
    ):
        value = SSAValue.get(x)
        rank = len(shape_of(value))
        places = sorted({normalize_axis(axis, rank) for axis in axes})
        GraphOp.__init__(
            self,
            [value],
            {
                "kind": ReduceKindAttr(ReduceKind(kind)),
                "axes": ints(places),
                "keepdims": flag(keepdims),
            },
        )

    @property
    def exceeds_halves(self) -> bool:
        """Whether results may exceed 16 bits: all but a minimum or maximum may."""
        return self.kind.data not in (ReduceKind.MAX, ReduceKind.MIN)

    def infer(self) -> Sequence[AnyTensor]:
        """Return the operand's shape without the reduced axes."""
        axes = self.axes.get_values()
        shape = shape_of(self.x)
        if list(axes) != sorted(set(axes)) or any(not 0 <= axis < len(shape) for axis in axes):
            raise VerifyException(f"axes {list(axes)} are not sorted axes of {len(shape)} dims")
        shape = reduced_shape(shape, axes, self.keepdims is not None)
        return (tensor(shape, element_type(self.x)),)

    @property
    def reduced_axes(self) -> tuple[int, ...]:
        """The axes reduced over."""
        return tuple(self.axes.get_values())

    def unchanged(self) -> SSAValue | None:
        """Return the operand, if the reduction is over no axes or over axes of extent 1."""
        if self.kind.data not in _KEEPS_SINGLE or self.count != 1:
            return None
        return self.x

    def simplify(self) -> Sequence[Operation] | None:
        """Replace a reduction over axes of extent 1 by a reshape."""
        if self.kind.data not in _KEEPS_SINGLE or self.count != 1:
            return None
        return (ReshapeOp(self.x, self.shape),)

    def part_counts(self) -> Sequence[int]:
        """Return the numbers of parts that divide the longest axis into equal, long parts."""
        if self.kind.data not in OF_PARTS or not combines_exactly(element_type(self.x)):
            return ()
        return even_parts(shape_of(self.x), self.axes.get_values())

    def in_parts(self, count: int) -> Sequence[Operation] | None:
        """Return ops that split an axis into parts, reduce within parts, and reduce over the
        parts."""
        if count not in self.part_counts():
            return None
        shape, axes = shape_of(self.x), self.axes.get_values()
        axis = longest_axis(shape, axes)
        view = ReshapeOp(self.x, [*shape[:axis], count, shape[axis] // count, *shape[axis + 1 :]])
        own = [a + (a >= axis) for a in axes]
        first, second = OF_PARTS[self.kind.data]
        parts = ReduceOp(view, kind=first.value, axes=own)
        place = sum(a not in axes for a in range(axis))
        total = ReduceOp(parts, kind=second.value, axes=[place])
        return view, parts, total, ReshapeOp(total, self.shape)

    def compute_sizes(self, *arrays: Array) -> Array | None:
        """Evaluate sums, products, minima and maxima."""
        function = _OF_SIZES.get(self.kind.data)
        if function is None:
            return None
        found, combine = arrays[0], np.frompyfunc(function, 2, 1)
        for axis in reversed(self.axes.get_values()):
            found = combine.reduce(found, axis, keepdims=self.keepdims is not None)
        return np.asarray(found, object)

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        options: dict[str, Any] = {
            "axis": self.axes.get_values(),
            "keepdims": self.keepdims is not None,
        }
        kind = self.kind.data
        if kind is ReduceKind.LOG_SUM_EXP:
            top = np.max(x, axis=options["axis"], keepdims=True, initial=-math.inf)
            top = np.where(np.isfinite(top), top, 0)
            total = np.log(np.sum(np.exp(x - top), **options))
            return total + top.reshape(total.shape)
        if kind in (ReduceKind.MAX, ReduceKind.MIN):
            options["initial"] = _extremum_identity(kind, x)
        before, after = _BEFORE.get(kind), _AFTER.get(kind)
        total = _REDUCE.get(kind, np.sum)(x if before is None else before(x), **options)
        return total if after is None else after(total)

    def tensor_expression(self, x: te.Tensor) -> te.Tensor:
        """Return a reduction stage, then a finishing stage for kinds that need one."""
        kind, element = self.kind.data, self.type.element_type
        if kind is ReduceKind.LOG_SUM_EXP:
            return self._log_sum_exp(x)
        term, combine, finish = _expression_parts(kind, self.count)
        if combine is te.max or combine is te.min:
            total = self._stage(x, combine, lambda at: x[tuple(at)])
        else:
            total = self._stage(x, combine, lambda at: term(widen(x[tuple(at)])))
        if finish is None:
            return narrow(total, element)
        return te.compute(
            self.shape, lambda *axes: te.cast(finish(total[axes]), element), name=f"{kind}_end"
        )

    @property
    def count(self) -> int:
        """Number of elements that each result combines."""
        shape = shape_of(self.x)
        return math.prod(shape[axis] for axis in self.axes.get_values())

    def _stage(
        self, x: te.Tensor, combine: Callable[..., Any], term: Callable[[Indices], te.Expr]
    ) -> te.Tensor:
        keepdims = self.keepdims is not None
        axes = self.axes.get_values()
        return reduce_stage(x.shape, axes, combine, term, "reduce", keepdims=keepdims)

    def _log_sum_exp(self, x: te.Tensor) -> te.Tensor:
        axes, keepdims = self.axes.get_values(), self.keepdims is not None
        element = self.type.element_type
        top = self._stage(x, te.max, lambda at: widen(x[tuple(at)]))

        def finite(axes: Indices) -> te.Expr:
            value = top[tuple(axes)]
            limit = te.const(math.inf, value.dtype)
            return te.select(te.abs(value) < limit, value, te.const(0.0, value.dtype))

        def term(at: Indices) -> te.Expr:
            own = [0 if d in axes else i for d, i in enumerate(at) if keepdims or d not in axes]
            return te.exp(widen(x[tuple(at)]) - finite(own))

        total = self._stage(x, te.sum, term)
        return te.compute(
            self.shape,
            lambda *axes: te.cast(te.log(total[axes]) + finite(axes), element),
            name="log_sum_exp",
        )


def _expression_parts(
    kind: ReduceKind, count: int
) -> tuple[Callable[[te.Expr], te.Expr], Callable[..., Any], Callable[[te.Expr], te.Expr] | None]:
    """Return the function of an element, the reduction, and the function of the result if any."""

    def same(v: te.Expr) -> te.Expr:
        return v

    match kind:
        case ReduceKind.SUM:
            return same, te.sum, None
        case ReduceKind.MEAN:
            return same, te.sum, lambda v: v / te.const(count, v.dtype)
        case ReduceKind.MAX:
            return same, te.max, None
        case ReduceKind.MIN:
            return same, te.min, None
        case ReduceKind.PROD:
            return same, te.prod, None
        case ReduceKind.L1:
            return te.abs, te.sum, None
        case ReduceKind.L2:
            return lambda v: v * v, te.sum, lambda v: te.cast(te.sqrt(_as_float(v)), v.dtype)
        case ReduceKind.SUM_SQUARE:
            return lambda v: v * v, te.sum, None
        case _:
            return same, te.sum, lambda v: te.cast(te.log(_as_float(v)), v.dtype)


def _as_float(value: te.Expr) -> te.Expr:
    return value if is_float(value.dtype) else te.cast(value, "f64")


def _extremum_identity(kind: ReduceKind, x: Array) -> Any:
    if x.dtype == np.bool_:
        return kind is ReduceKind.MIN
    if np.issubdtype(x.dtype, np.floating):
        return math.inf if kind is ReduceKind.MIN else -math.inf
    info = np.iinfo(x.dtype)
    return info.max if kind is ReduceKind.MIN else info.min


@irdl_op_definition
class ArgReduceOp(ReductionOp):
    """The i64 index along an axis of the maximum or minimum.

    Of equal elements the first index is chosen, or the last with `select_last`.
    """

    name = "graph.arg_reduce"

    kind = prop_def(ExtremumAttr)
    axis = prop_def(Int)
    keepdims = opt_prop_def(UnitAttr)
    select_last = opt_prop_def(UnitAttr)

    def __init__(
        self,
        x: SSAValue | Operation,
        *,
        kind: str,
        axis: int,
        keepdims: bool = False,
        select_last: bool = False,
    ):
        value = SSAValue.get(x)
        GraphOp.__init__(
            self,
            [value],
            {
                "kind": ExtremumAttr(Extremum(kind)),
                "axis": integer(normalize_axis(axis, len(shape_of(value)))),
                "keepdims": flag(keepdims),
                "select_last": flag(select_last),
            },
        )

    def infer(self) -> Sequence[AnyTensor]:
        """Return the operand's shape without the axis, with i64 elements."""
        shape, axis = shape_of(self.x), self.axis.value.data
        if not 0 <= axis < len(shape):
            raise VerifyException(f"axis {axis} is outside a tensor of rank {len(shape)}")
        if shape[axis] == 0:
            raise VerifyException("no element to choose: the axis has extent 0")
        return (tensor(reduced_shape(shape, (axis,), self.keepdims is not None), i64),)

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        axis = self.axis.value.data
        find = np.argmax if self.kind.data is Extremum.MAX else np.argmin
        if self.select_last is None:
            return find(x, axis=axis, keepdims=self.keepdims is not None)
        found = find(np.flip(x, axis), axis=axis, keepdims=self.keepdims is not None)
        return x.shape[axis] - 1 - found

    def tensor_expression(self, x: te.Tensor) -> te.Tensor:
        """Return the extremum, then the first or last index that holds it; nan counts as an
        extremum."""
        axis, keepdims = self.axis.value.data, self.keepdims is not None
        greatest, last = self.kind.data is Extremum.MAX, self.select_last is not None
        best = reduce_stage(
            x.shape,
            (axis,),
            te.max if greatest else te.min,
            lambda at: x[tuple(at)],
            "extremum",
            keepdims=keepdims,
        )

        def term(at: Indices) -> te.Expr:
            value = x[tuple(at)]
            own = [0 if d == axis else i for d, i in enumerate(at) if keepdims or d != axis]
            hit = value == best[tuple(own)]
            if is_float(value.dtype):
                hit = hit | te.not_equal(value, value)
            missing = te.const(-1 if last else x.shape[axis], i64)
            return te.select(hit, te.cast(at[axis], i64), missing)

        combine = te.max if last else te.min
        return reduce_stage(x.shape, (axis,), combine, term, "arg_reduce", keepdims=keepdims)
