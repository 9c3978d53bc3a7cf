"""Padding of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import (
    Extents,
    Int,
    PadMode,
    PadModeAttr,
    extents_attr,
    extents_in,
    integer,
)
from tcopt.dialects.graph.core.constant import uniform_value
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.stages import Indices
from tcopt.dialects.graph.core.types import AnyTensor, Array, shape_of, tensor
from tcopt.dialects.graph.elementwise.base import same_element_type
from tcopt.dialects.graph.movement.shape import ReshapeOp
from tcopt.dialects.te import api as te
from tcopt.dialects.te.tensor import Uniform
from tcopt.support.arithmetic.sizes import is_fixed, maximum

_FEW_CHANNELS = 16
"""Lanes of the widest vector: the channels of a pixel do not fill it if there are fewer."""


@irdl_op_definition
class PadOp(GraphOp):
    """Extend each axis by `low` elements at its start and `high` at its end; negative counts crop.

    In constant mode the new elements are `value` (a scalar tensor, zero by default), else elements
    of x: mirrored about the edge, copies of the edge, or wrapped around. Along the last axis, every
    `unit` elements are moved together, like the channels of a pixel; all counts along that axis are
    multiples of it.
    """

    name = "graph.pad"

    x = operand_def(TensorType)
    value = opt_operand_def(TensorType)
    low = prop_def(Extents)
    high = prop_def(Extents)
    mode = prop_def(PadModeAttr, default_value=PadModeAttr(PadMode.CONSTANT))
    unit = prop_def(Int, default_value=integer(1))
    result = result_def(TensorType)

    def __init__(
        self,
        x: SSAValue | Operation,
        value: SSAValue | Operation | None = None,
        *,
        low: Sequence[int],
        high: Sequence[int],
        mode: str = "constant",
        unit: int = 1,
    ):
        super().__init__(
            [x] if value is None else [x, value],
            {
                "low": extents_attr(low),
                "high": extents_attr(high),
                "mode": PadModeAttr(PadMode(mode)),
                "unit": integer(unit),
            },
        )

    def infer(self) -> Sequence[AnyTensor]:
        """Return the extents including the padding."""
        shape = shape_of(self.x)
        low, high = extents_in(self.low), extents_in(self.high)
        element = same_element_type(*self.operands)
        if not len(shape) == len(low) == len(high):
            raise VerifyException(f"low and high need {len(shape)} entries each")
        if self.value is not None and shape_of(self.value) != ():
            raise VerifyException(f"the pad value must be a scalar tensor, got {self.value.type}")
        result = [before + n + after for before, n, after in zip(low, shape, high, strict=True)]
        if any(n < 0 for n in result):
            raise VerifyException(f"padding crops more elements than exist: {result}")
        self._check_unit([counts[-1] for counts in (shape, low, high) if counts])
        self._check_sources(shape, low, high)
        return (tensor(result, element),)

    def _check_unit(self, counts: Sequence[int]) -> None:
        unit = self.unit.value.data
        if unit < 1 or any(count % unit != 0 for count in counts):
            raise VerifyException(f"counts along the last axis are not multiples of unit {unit}")

    def _check_sources(self, shape: Sequence[int], low: Sequence[int], high: Sequence[int]) -> None:
        mode = self.mode.data
        if mode is PadMode.CONSTANT:
            return
        if self.value is not None:
            raise VerifyException(f"a pad value is not used in {mode} mode")
        for extent, before, after in zip(shape, low, high, strict=True):
            reach = maximum(before, after)
            if reach > 0 and (extent <= 0 or (mode is PadMode.REFLECT and reach >= extent)):
                raise VerifyException(f"{mode} padding by {reach} needs more than {extent}")

    @property
    def is_border(self) -> bool:
        """Whether the op adds elements of one known value and crops nothing."""
        counts = (*extents_in(self.low), *extents_in(self.high))
        return self.number is not None and is_fixed(counts) and min(counts, default=0) >= 0

    @property
    def number(self) -> int | float | None:
        """Value of all new elements; None if it is unknown."""
        if self.mode.data is not PadMode.CONSTANT:
            return None
        number = 0 if self.value is None else uniform_value(self.value)
        return number if number == number else None  # NaN does not equal itself

    def unchanged(self) -> SSAValue | None:
        """Return the operand, if nothing is added."""
        return None if any(extents_in(self.low)) or any(extents_in(self.high)) else self.x

    def decompose(self) -> Sequence[Operation] | None:
        """Return padding of rows in units of a pixel, for copies of pixels with few channels.

        All elements of a row are contiguous then, so it can be copied by vectors.
        """
        counts = [*zip(extents_in(self.low), extents_in(self.high), strict=True)]
        axis = max((place for place, each in enumerate(counts) if any(each)), default=-1)
        channels = prod(self.shape[axis + 1 :])
        is_copy = self.mode.data is not PadMode.CONSTANT and self.unit.value.data == 1
        if axis in (-1, len(counts) - 1) or not is_copy or not 0 < channels < _FEW_CHANNELS:
            return None
        low, high = zip(*counts[:axis], [n * channels for n in counts[axis]], strict=True)
        flat = ReshapeOp(self.x, (*shape_of(self.x)[:axis], shape_of(self.x)[axis] * channels))
        mode = self.mode.data.value
        rows = PadOp(flat, low=low, high=high, mode=mode, unit=channels)
        return (flat, rows, ReshapeOp(rows, self.shape))

    def compute(self, x: Array, value: Array | None = None) -> Array:
        """Evaluate the op with numpy."""
        unit = self.unit.value.data
        if unit > 1:
            x = x.reshape(*x.shape[:-1], -1, unit)
        # Split the last axis into units, and do not pad within them.
        low, high = _in_units(extents_in(self.low), unit), _in_units(extents_in(self.high), unit)
        widths = [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)]
        options: dict[str, Any] = {"mode": self.mode.data.value}
        if self.mode.data is PadMode.CONSTANT:
            options["constant_values"] = 0 if value is None else value.item()
        padded = np.pad(x, widths, **options)
        crop = tuple(
            slice(max(-a, 0), extent - max(-b, 0))
            for a, b, extent in zip(low, high, padded.shape, strict=True)
        )
        return padded[crop].reshape(self.shape)

    def tensor_expression(self, x: te.Tensor, value: te.Tensor | None = None) -> te.Tensor:
        """Return a guarded read in constant mode, else one stage for each padded axis, starting
        with the last. Each stage reads one element of the previous one, which can be inlined."""
        low, high = extents_in(self.low), extents_in(self.high)
        if self.mode.data is PadMode.CONSTANT:
            return self._constant_expression(x, value)
        for axis, (before, after) in reversed([*enumerate(zip(low, high, strict=True))]):
            if before or after:
                unit = self.unit.value.data if axis == len(low) - 1 else 1
                x = _pad_axis(x, axis, before, after, self.mode.data, unit)
        return x if any(low) or any(high) else te.compute(x.shape, lambda *a: x[a], name="pad")

    def _constant_expression(self, x: te.Tensor, value: te.Tensor | None) -> te.Tensor:
        low = extents_in(self.low)

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


def _in_units(counts: Sequence[int], unit: int) -> tuple[int, ...]:
    return tuple(counts) if unit == 1 else (*counts[:-1], counts[-1] // unit, 0)


def _pad_axis(
    x: te.Tensor, axis: int, before: int, after: int, mode: PadMode, unit: int
) -> te.Tensor:
    """Pad or crop x along one axis with its own elements, moving `unit` elements together.

    Along the last axis, where neighbours are read together, each part has a read of its own. Along
    other axes there is one read at a computed index.
    """
    extent, is_last = x.shape[axis], axis == len(x.shape) - 1
    shape = (*x.shape[:axis], extent + before + after, *x.shape[axis + 1 :])

    def body(*axes: te.Axis) -> te.Expr:
        i = axes[axis]
        inside = i % unit if unit > 1 else 0

        def mirrored(last: int) -> te.Index:
            """Return the index whose distance from 0, in units, is that of `i` from `last`."""
            return (last // unit - i // unit) * unit + inside

        def read(at: Any) -> te.Expr:
            place: Indices = (*axes[:axis], at, *axes[axis + 1 :])
            return x[tuple(place)]

        def choose(value: Callable[[Any], te.Expr]) -> te.Expr:
            """Select a value by the source index of an element."""
            chosen = value(i - before)
            if after > 0:
                end = {
                    PadMode.REFLECT: mirrored(before + 2 * (extent - unit)),
                    PadMode.WRAP: i - before - extent,
                }
                last = extent - unit + inside
                chosen = te.if_then_else(i < before + extent, chosen, value(end.get(mode, last)))
            if before > 0:
                start = {PadMode.REFLECT: mirrored(before), PadMode.WRAP: i - before + extent}
                chosen = te.if_then_else(i < before, value(start.get(mode, inside)), chosen)
            return chosen

        if mode is PadMode.WRAP and max(before, after) > extent:
            return read((i - before) % extent)
        if is_last or max(before, after) <= 0:
            return choose(read)
        return read(te.index(choose(lambda at: te.cast(at, "i64"))))

    return te.compute(shape, body, name="pad")
