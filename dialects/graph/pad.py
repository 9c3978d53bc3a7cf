"""Elements around a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.attributes import Int, Ints, PadMode, PadModeAttr, integer, ints
from tcopt.dialects.graph.constant import uniform_value
from tcopt.dialects.graph.elementwise import same_element_type
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.shape import ReshapeOp
from tcopt.dialects.graph.stages import Indices
from tcopt.dialects.graph.types import AnyTensor, Array, shape_of, tensor
from tcopt.dialects.te import api as te
from tcopt.dialects.te.tensor import Uniform

_FEW_CHANNELS = 16
"""Elements of the widest vector: with fewer channels a pixel does not fill one."""


@irdl_op_definition
class PadOp(GraphOp):
    """Extend by `low` elements before and `high` after each axis; negative counts crop.

    The new elements are `value` (a scalar tensor, zero if left out) in constant mode, else
    elements of x: mirrored about the edge, copies of the edge, or wrapped around. Along the last
    axis, every `unit` elements stay together, as the channels of a pixel do; all counts along
    that axis are multiples of it.
    """

    name = "graph.pad"

    x = operand_def(TensorType)
    value = opt_operand_def(TensorType)
    low = prop_def(Ints)
    high = prop_def(Ints)
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
                "low": ints(low),
                "high": ints(high),
                "mode": PadModeAttr(PadMode(mode)),
                "unit": integer(unit),
            },
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
        self._check_unit([counts[-1] for counts in (shape, low, high) if counts])
        self._check_sources(shape, low, high)
        return (tensor(extents, element),)

    def _check_unit(self, counts: Sequence[int]) -> None:
        unit = self.unit.value.data
        if unit < 1 or any(count % unit for count in counts):
            raise VerifyException(f"counts along the last axis are not multiples of unit {unit}")

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

    def decompose(self) -> Sequence[Operation] | None:
        """Copies of pixels with few channels, as padding of whole rows in units of a pixel.

        Along a row all elements are neighbours, so that it is copied by vectors.
        """
        counts = [*zip(self.low.get_values(), self.high.get_values(), strict=True)]
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
        """The value by numpy."""
        unit = self.unit.value.data
        if unit > 1:
            x = x.reshape(*x.shape[:-1], -1, unit)
        # Units along the last axis, and nothing is added to them.
        low, high = _in_units(self.low.get_values(), unit), _in_units(self.high.get_values(), unit)
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
        """A guarded read in constant mode, else one stage for each padded axis, the last first:
        what reads it reads one element, and takes it in."""
        low, high = self.low.get_values(), self.high.get_values()
        if self.mode.data is PadMode.CONSTANT:
            return self._constant_expression(x, value)
        for axis, (before, after) in reversed([*enumerate(zip(low, high, strict=True))]):
            if before or after:
                unit = self.unit.value.data if axis == len(low) - 1 else 1
                x = _pad_axis(x, axis, before, after, self.mode.data, unit)
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


def _in_units(counts: Sequence[int], unit: int) -> tuple[int, ...]:
    return tuple(counts) if unit == 1 else (*counts[:-1], counts[-1] // unit, 0)


def _pad_axis(
    x: te.Tensor, axis: int, before: int, after: int, mode: PadMode, unit: int
) -> te.Tensor:
    """x padded or cropped along one axis from its own elements, of which each `unit` stay together.

    Along the last axis, where neighbours are read together, each part has a read of its own;
    along others the one read is at a place that is computed.
    """
    extent, is_last = x.shape[axis], axis == len(x.shape) - 1
    shape = (*x.shape[:axis], extent + before + after, *x.shape[axis + 1 :])

    def body(*axes: te.Axis) -> te.Expr:
        i = axes[axis]
        inside = i % unit if unit > 1 else 0

        def mirrored(last: int) -> te.Index:
            """The place with as many units in front of it as `i` has units from it to `last`."""
            return (last // unit - i // unit) * unit + inside

        def read(at: Any) -> te.Expr:
            place: Indices = (*axes[:axis], at, *axes[axis + 1 :])
            return x[tuple(place)]

        def choose(value: Callable[[Any], te.Expr]) -> te.Expr:
            """A value by the place that an element is taken from."""
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
