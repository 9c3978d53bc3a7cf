"""Taking parts of tensors and putting them together: slice, concat, pad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.attributes import Int, Ints, PadMode, PadModeAttr, integer, ints
from tcopt.dialects.graph.constant import uniform_value
from tcopt.dialects.graph.elementwise import same_element_type
from tcopt.dialects.graph.interfaces import GraphOp, Limits
from tcopt.dialects.graph.scaled import Scaled, ScaledOps
from tcopt.dialects.graph.shape import MovementOp, ReshapeOp
from tcopt.dialects.graph.stages import Indices
from tcopt.dialects.graph.types import (
    AnyTensor,
    Array,
    bytes_of,
    element_type,
    normalize_axis,
    numpy_dtype,
    shape_of,
    tensor,
    type_of,
)
from tcopt.dialects.te import api as te
from tcopt.dialects.te.tensor import Uniform
from tcopt.support.alignment import ALIGNMENT

CACHE_LINE = 64
"""Bytes; the start of every buffer is a multiple of it."""

_FEW_PARTS = 8
"""Parts of a concatenation that are chosen from one after the other."""


@irdl_op_definition
class SliceOp(MovementOp):
    """The elements at starts + index * steps; the result type says how many of them.

    Starts lie inside the operand; steps may be negative, and are 1 when left out.
    """

    name = "graph.slice"

    starts = prop_def(Ints)
    steps = opt_prop_def(Ints)

    def __init__(
        self,
        x: SSAValue | Operation,
        starts: Sequence[int],
        extents: Sequence[int],
        steps: Sequence[int] | None = None,
    ):
        """One entry an axis of x in each list; `extents` is the result's shape."""
        value = SSAValue.get(x)
        stride = ints(steps) if steps is not None and set(steps) - {1} else None
        super().__init__(
            [value],
            {"starts": ints(starts), "steps": stride},
            tensor(extents, element_type(value)),
        )
        self.infer()

    @property
    def strides(self) -> tuple[int, ...]:
        """The step along each axis."""
        if self.steps is None:
            return (1,) * len(self.shape)
        return self.steps.get_values()

    def infer(self) -> Sequence[AnyTensor]:
        """The result's shape with the operand's element type."""
        shape, starts, steps = shape_of(self.x), self.starts.get_values(), self.strides
        if not len(shape) == len(starts) == len(steps) == len(self.shape):
            raise VerifyException(f"starts, steps and result do not fit {self.x.type}")
        rows = zip(shape, starts, steps, self.shape, strict=True)
        for axis, (extent, start, step, count) in enumerate(rows):
            last = start + (count - 1) * step
            if step == 0 or (count > 0 and not (0 <= start < extent and 0 <= last < extent)):
                raise VerifyException(
                    f"{count} elements from {start} by {step} leave axis {axis} of {self.x.type}"
                )
        return (tensor(self.shape, element_type(self.x)),)

    @property
    def is_part(self) -> bool:
        """Where neighbours stay neighbours: elements are then read where they are."""
        return self.strides[-1:] in ((1,), ())

    @property
    def first_element(self) -> int | None:
        """How many elements of the operand lie in front of those of the result, where these are
        neighbours in memory: along the outermost axis of which there are several, if the axes
        inside of it are whole."""
        shape, starts = shape_of(self.x), self.starts.get_values()
        outer = next((axis for axis, count in enumerate(self.shape) if count != 1), len(shape))
        if 0 in self.shape or shape[outer + 1 :] != self.shape[outer + 1 :]:
            return None
        if any(step != 1 for step in self.strides[outer:]):
            return None
        place = 0
        for extent, start in zip(shape, starts, strict=True):
            place = place * extent + start
        return place

    @property
    def subview_offset(self) -> int | None:
        """Where neighbours in memory begin, if that is aligned."""
        if (place := self.first_element) is None:
            return None
        offset = place * numpy_dtype(self.type.element_type).itemsize
        return offset if offset % ALIGNMENT == 0 else None

    def unchanged(self) -> SSAValue | None:
        """The operand, if all of it is taken."""
        return None if any(step < 0 for step in self.strides) else self.x

    def simplify(self) -> Sequence[Operation] | None:
        """A slice of a slice is one slice."""
        inner = self.x.owner
        if not isinstance(inner, SliceOp) or 0 in self.shape:
            return None
        outer = zip(self.starts.get_values(), self.strides, strict=True)
        rows = list(zip(outer, inner.starts.get_values(), inner.strides, strict=True))
        starts = [base + start * pitch for (start, _), base, pitch in rows]
        steps = [step * pitch for (_, step), _, pitch in rows]
        return (SliceOp(inner.x, starts, self.shape, steps),)

    def compute(self, x: Array) -> Array:
        """The value by numpy."""
        places: list[slice] = []
        for start, step, count in zip(
            self.starts.get_values(), self.strides, self.shape, strict=True
        ):
            stop = start + count * step
            places.append(slice(start, None if stop < 0 else stop, step))
        return x[tuple(places)]

    def tensor_expression(self, x: te.Tensor) -> te.Tensor:
        """One stage that reads at start + index * step."""
        rows = list(zip(self.starts.get_values(), self.strides, strict=True))

        def body(*axes: te.Axis) -> te.Expr:
            return x[tuple(a * step + start for a, (start, step) in zip(axes, rows, strict=True))]

        return te.compute(self.shape, body, name="slice")


@irdl_op_definition
class ConcatOp(GraphOp):
    """Tensors one after the other along an axis."""

    name = "graph.concat"

    inputs = var_operand_def(TensorType)
    axis = prop_def(Int)
    result = result_def(TensorType)

    def __init__(self, inputs: Sequence[SSAValue | Operation], *, axis: int):
        values = [SSAValue.get(value) for value in inputs]
        if not values:
            raise VerifyException("nothing to concatenate")
        place = normalize_axis(axis, len(shape_of(values[0])))
        super().__init__(values, {"axis": integer(place)})

    def infer(self) -> Sequence[AnyTensor]:
        """The common shape, with the sum of the extents along the axis."""
        if not self.inputs:
            raise VerifyException("nothing to concatenate")
        element = same_element_type(*self.inputs)
        shapes = [shape_of(value) for value in self.inputs]
        axis = self.axis.value.data
        if not 0 <= axis < len(shapes[0]):
            raise VerifyException(f"axis {axis} is outside {self.inputs[0].type}")
        others = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
        if len(others) != 1 or len({len(shape) for shape in shapes}) != 1:
            raise VerifyException(f"operands differ beside axis {axis}")
        total = sum(shape[axis] for shape in shapes)
        return (tensor((*shapes[0][:axis], total, *shapes[0][axis + 1 :]), element),)

    def unchanged(self) -> SSAValue | None:
        """The only operand that has elements."""
        parts = [x for x in self.inputs if 0 not in shape_of(x)]
        return parts[0] if len(parts) == 1 else None

    @property
    def is_contiguous(self) -> bool:
        """Whether the operands' data, one after the other, is that of the result."""
        return all(extent == 1 for extent in self.shape[: self.axis.value.data])

    def simplify(self) -> Sequence[Operation] | None:
        """Parts that lie one after the other in one tensor, as a split has them, are a part of
        it, or all of it in another shape."""
        if not self.is_contiguous or 0 in self.shape:
            return None
        parts = [_part_of(value) for value in self.inputs]
        found = {source for source, _ in parts}
        sizes = accumulate((prod(shape_of(value)) for value in self.inputs), initial=parts[0][1])
        if len(found) != 1 or any(at != end for (_, at), end in zip(parts, sizes, strict=False)):
            return None
        (whole,), (_, start) = found, parts[0]
        shape, count = shape_of(whole), prod(self.shape)
        if count == prod(shape):
            return (ReshapeOp(whole, self.shape),)
        axis = next(place for place, extent in enumerate(shape) if extent > 1)
        inner = prod(shape[axis + 1 :])
        if start % inner or count % inner:
            return None
        starts, extents = [0] * len(shape), list(shape)
        starts[axis], extents[axis] = start // inner, count // inner
        part = SliceOp(whole, starts, extents)
        return (part, ReshapeOp(part, self.shape))

    @property
    def is_joined(self) -> bool:
        """If it is contiguous, and the operands fill lines of the cache."""
        sizes = [bytes_of(type_of(value)) for value in self.inputs]
        aligned = all(size % CACHE_LINE == 0 for size in sizes[:-1])
        return self.is_contiguous and aligned and min(sizes) > 0 and len(sizes) > 1

    @property
    def selects(self) -> bool:
        """By the place along the axis."""
        return True

    def is_nonnegative(self, operands: Sequence[bool]) -> bool:
        """If all operands are."""
        return all(operands)

    def integer_limits(self, operands: Sequence[Limits]) -> Limits | None:
        """Those of all parts."""
        return min(low for low, _ in operands), max(high for _, high in operands)

    def on_integers(self, operands: Sequence[Scaled]) -> ScaledOps | None:
        """Parts of one type and one scale."""
        first, *others = operands
        types = {element_type(part.integers) for part in operands}
        same = all(part.is_uniform and part.scales_like(first) for part in others)
        if len(types) > 1 or not first.is_uniform or not same:
            return None
        parts = [part.integers for part in operands]
        return ScaledOps([ConcatOp(parts, axis=self.axis.value.data)])

    def in_blocks(self, operands: Sequence[SSAValue], block: int) -> GraphOp | None:
        """Along any axis, channels included: whole blocks follow each other."""
        return ConcatOp(list(operands), axis=self.axis.value.data)

    def compute(self, *arrays: Array) -> Array:
        """The value by numpy."""
        return np.concatenate(arrays, self.axis.value.data)

    def tensor_expression(self, *inputs: te.Tensor) -> te.Tensor:
        """One stage that chooses the operand by the index along the axis: by halves of them, as
        long as they are many."""
        axis = self.axis.value.data
        starts = accumulate((x.shape[axis] for x in inputs), initial=0)
        parts = [(x, start) for x, start in zip(inputs, starts, strict=False) if x.shape[axis]]

        def body(*axes: te.Axis) -> te.Expr:
            def read(x: te.Tensor, start: int) -> te.Expr:
                return x[(*axes[:axis], axes[axis] - start, *axes[axis + 1 :])]

            def choose(parts: Sequence[tuple[te.Tensor, int]]) -> te.Expr:
                if len(parts) > _FEW_PARTS:
                    middle = len(parts) // 2
                    _, end = parts[middle]
                    halves = choose(parts[:middle]), choose(parts[middle:])
                    return te.if_then_else(axes[axis] < end, *halves)
                value = read(*parts[-1])
                for (x, start), (_, end) in zip(parts[-2::-1], parts[:0:-1], strict=True):
                    value = te.if_then_else(axes[axis] < end, read(x, start), value)
                return value

            return choose(parts)

        return te.compute(self.shape, body, name="concat")


def _part_of(value: SSAValue) -> tuple[SSAValue, int]:
    """What a value is a part of, whatever its shape, and the element of it that it begins at."""
    inner = value
    while isinstance(inner.owner, ReshapeOp):
        inner = inner.owner.x
    if isinstance(inner.owner, SliceOp) and (start := inner.owner.first_element) is not None:
        return inner.owner.x, start
    return value, 0


@irdl_op_definition
class PadOp(GraphOp):
    """Extend by `low` elements before and `high` after each axis; negative counts crop.

    The new elements are `value` (a scalar tensor, zero if left out) in constant mode, else
    elements of x: mirrored without or clamped to the edge, or wrapped around.
    """

    name = "graph.pad"

    x = operand_def(TensorType)
    value = opt_operand_def(TensorType)
    low = prop_def(Ints)
    high = prop_def(Ints)
    mode = prop_def(PadModeAttr, default_value=PadModeAttr(PadMode.CONSTANT))
    result = result_def(TensorType)

    def __init__(
        self,
        x: SSAValue | Operation,
        value: SSAValue | Operation | None = None,
        *,
        low: Sequence[int],
        high: Sequence[int],
        mode: str = "constant",
    ):
        super().__init__(
            [x] if value is None else [x, value],
            {"low": ints(low), "high": ints(high), "mode": PadModeAttr(PadMode(mode))},
        )

    def infer(self) -> Sequence[AnyTensor]:
        """Each extent plus what is added before and after it."""
        shape = shape_of(self.x)
        low, high = self.low.get_values(), self.high.get_values()
        element = same_element_type(*self.operands)
        if not len(shape) == len(low) == len(high):
            raise VerifyException(f"low and high need {len(shape)} entries each")
        if self.value is not None and shape_of(self.value) != ():
            raise VerifyException(f"the pad value must be a scalar tensor, got {self.value.type}")
        extents = [before + n + after for before, n, after in zip(low, shape, high, strict=True)]
        if min(extents, default=0) < 0:
            raise VerifyException(f"padding crops more than there is: {extents}")
        self._check_sources(shape, low, high)
        return (tensor(extents, element),)

    def _check_sources(self, shape: Sequence[int], low: Sequence[int], high: Sequence[int]) -> None:
        mode = self.mode.data
        if mode is PadMode.CONSTANT:
            return
        if self.value is not None:
            raise VerifyException(f"a pad value has no use in {mode} mode")
        for extent, before, after in zip(shape, low, high, strict=True):
            reach = max(before, after)
            if reach > 0 and (extent == 0 or (mode is PadMode.REFLECT and reach >= extent)):
                raise VerifyException(f"{mode} padding by {reach} needs more than {extent}")

    @property
    def is_border(self) -> bool:
        """Whether elements of one known number are added and nothing is cropped."""
        counts = (*self.low.get_values(), *self.high.get_values())
        return self.number is not None and min(counts, default=0) >= 0

    @property
    def number(self) -> int | float | None:
        """What all new elements are, if that is known."""
        if self.mode.data is not PadMode.CONSTANT:
            return None
        number = 0 if self.value is None else uniform_value(self.value)
        return number if number == number else None  # no NaN, which equals nothing

    @property
    def fills(self) -> Sequence[float] | None:
        """Zeros where no value is given."""
        return (0,) if self.mode.data is PadMode.CONSTANT and self.value is None else ()

    def is_nonnegative(self, operands: Sequence[bool]) -> bool:
        """If the operand and the value are, which are all that there is."""
        return all(operands)

    def unchanged(self) -> SSAValue | None:
        """The operand, if nothing is added."""
        return None if any(self.low.get_values()) or any(self.high.get_values()) else self.x

    def compute(self, x: Array, value: Array | None = None) -> Array:
        """The value by numpy."""
        low, high = self.low.get_values(), self.high.get_values()
        widths = [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)]
        options: dict[str, Any] = {"mode": self.mode.data.value}
        if self.mode.data is PadMode.CONSTANT:
            options["constant_values"] = 0 if value is None else value.item()
        padded = np.pad(x, widths, **options)
        crop = tuple(
            slice(max(-a, 0), extent - max(-b, 0))
            for a, b, extent in zip(low, high, padded.shape, strict=True)
        )
        return padded[crop]

    def tensor_expression(self, x: te.Tensor, value: te.Tensor | None = None) -> te.Tensor:
        """A guarded read in constant mode, else one stage for each padded axis, the last first:
        what reads it reads one element, and takes it in."""
        low, high = self.low.get_values(), self.high.get_values()
        if self.mode.data is PadMode.CONSTANT:
            return self._constant_expression(x, value)
        for axis, (before, after) in reversed([*enumerate(zip(low, high, strict=True))]):
            if before or after:
                x = _pad_axis(x, axis, before, after, self.mode.data)
        return x if any(low) or any(high) else te.compute(x.shape, lambda *a: x[a], name="pad")

    def _constant_expression(self, x: te.Tensor, value: te.Tensor | None) -> te.Tensor:
        low = self.low.get_values()

        def body(*axes: te.Axis) -> te.Expr:
            at: Any = tuple(axis - before for axis, before in zip(axes, low, strict=True))
            if value is None or isinstance(value, Uniform):
                return x.read(at, default=0 if value is None else value.value)
            inside = [te.const(1, i1)]
            for axis, extent, new in zip(at, x.shape, self.shape, strict=True):
                if extent != new:
                    inside += [axis >= 0, axis < extent]
            return te.if_then_else(te.all(*inside[1:] or inside), x[at], value[()])

        return te.compute(self.shape, body, name="pad")


def _pad_axis(x: te.Tensor, axis: int, before: int, after: int, mode: PadMode) -> te.Tensor:
    """x padded or cropped along one axis from its own elements.

    Along the last axis, where neighbours are read together, each part has a read of its own;
    along others the one read is at a place that is computed.
    """
    extent, is_last = x.shape[axis], axis == len(x.shape) - 1
    shape = (*x.shape[:axis], extent + before + after, *x.shape[axis + 1 :])

    def body(*axes: te.Axis) -> te.Expr:
        def read(at: Any) -> te.Expr:
            place: Indices = (*axes[:axis], at, *axes[axis + 1 :])
            return x[tuple(place)]

        def choose(value: Callable[[Any], te.Expr]) -> te.Expr:
            """A value by the place that an element is taken from."""
            at: Any = axes[axis] - before
            chosen = value(at)
            if after > 0:
                end = {PadMode.REFLECT: 2 * (extent - 1) - at, PadMode.WRAP: at - extent}
                chosen = te.if_then_else(at < extent, chosen, value(end.get(mode, extent - 1)))
            if before > 0:
                start = {PadMode.REFLECT: -at, PadMode.WRAP: at + extent}
                chosen = te.if_then_else(at < 0, value(start.get(mode, 0)), chosen)
            return chosen

        if mode is PadMode.WRAP and max(before, after) > extent:
            return read((axes[axis] - before) % extent)
        if is_last or max(before, after) <= 0:
            return choose(read)
        return read(te.index(choose(lambda at: te.cast(at, "i64"))))

    return te.compute(shape, body, name="pad")
