"""Running sums and products along an axis."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType, UnitAttr, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from tcopt.dialects.graph.core.attributes import Int, flag, integer
from tcopt.dialects.graph.core.opaque import OpaqueOp
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    element_type,
    is_half,
    normalize_axis,
    shape_of,
    type_of,
)
from tcopt.dialects.loop.writer import Buffer, KernelWriter, RowPart
from tcopt.dialects.loop.writer_scalar import Scalar


class CumulativeOp(OpaqueOp):
    """Base class of running reductions along an axis; 16-bit floats are computed in f32."""

    NUMPY: ClassVar[Callable[..., Array]]
    NEUTRAL: ClassVar[int]

    x = operand_def(TensorType)
    axis = prop_def(Int)
    exclusive = opt_prop_def(UnitAttr)
    reverse = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    @property
    def exceeds_halves(self) -> bool:
        """True: running sums and products may exceed 16 bits."""
        return True

    def __init__(
        self,
        x: SSAValue | Operation,
        *,
        axis: int,
        exclusive: bool = False,
        reverse: bool = False,
    ):
        value = SSAValue.get(x)
        super().__init__(
            [value],
            {
                "axis": integer(normalize_axis(axis, len(shape_of(value)))),
                "exclusive": flag(exclusive),
                "reverse": flag(reverse),
            },
        )

    def infer(self) -> Sequence[AnyTensor]:
        """Return the operand's type."""
        normalize_axis(self.axis.value.data, len(shape_of(self.x)))
        return (type_of(self.x),)

    def compute_all(self, x: Array) -> Sequence[Array]:
        """Evaluate the op with numpy."""
        axis = self.axis.value.data
        if self.reverse is not None:
            x = np.flip(x, axis)
        total = type(self).NUMPY(x, axis=axis, dtype=x.dtype)
        if self.exclusive is not None:
            neutral = np.full_like(x.take([0], axis), self.NEUTRAL)
            total = np.concatenate([neutral, total], axis).take(range(x.shape[axis]), axis)
        return (np.flip(total, axis) if self.reverse is not None else total,)

    @staticmethod
    @abstractmethod
    def combine(before: Scalar, value: Scalar) -> Scalar:
        """Combine the running value with another element."""

    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """Write loops over independent lines along the axis; adjacent lines are vectorised."""
        x, result = buffers
        axis, extent = self.axis.value.data, x.shape[self.axis.value.data]
        wide = f32 if is_half(element_type(self.x)) else element_type(self.x)
        if axis < len(x.shape) - 1:
            self._write_rows(k, wide, x, result)
            return
        beside = [n for d, n in enumerate(x.shape) if d != axis]
        with k.loops(beside, parallel=True) as line:
            total = k.variable(wide, self.NEUTRAL)
            with k.loop(extent) as step:
                place = (extent - 1) - step if self.reverse is not None else step
                at = [*line[:axis], place, *line[axis:]]
                value, before = x[at].cast(wide), total.get()
                total.set(self.combine(before, value))
                chosen = before if self.exclusive is not None else total.get()
                result[at] = chosen.cast(element_type(self.x))

    def _write_rows(self, k: KernelWriter, wide: Attribute, x: Buffer, result: Buffer) -> None:
        """Write the loops for all lines, vectorised along the last dimension."""
        axis = self.axis.value.data
        *beside, last = [n for d, n in enumerate(x.shape) if d != axis]
        with k.loops(beside, parallel=True) as line:
            for parts in k.parts(last, parallel=True):
                with parts as part:
                    self._write_part(k, part, line, (x, result), wide)

    def _write_part(
        self,
        k: KernelWriter,
        part: RowPart,
        line: Sequence[Scalar],
        buffers: tuple[Buffer, Buffer],
        wide: Attribute,
    ) -> None:
        """Write the loop along the axis for some adjacent lines."""
        (x, result), axis = buffers, self.axis.value.data
        extent = x.shape[axis]
        total = part.variables(wide)
        with part.places() as (_, lane):
            total[lane] = self.NEUTRAL
        with k.loop(extent) as step, part.places() as (place, lane):
            row = (extent - 1) - step if self.reverse is not None else step
            at = [*line[:axis], row, *line[axis:], place]
            value, before = x[at].cast(wide), total[lane]
            total[lane] = self.combine(before, value)
            chosen = before if self.exclusive is not None else total[lane]
            result[at] = chosen.cast(element_type(self.x))


@irdl_op_definition
class CumsumOp(CumulativeOp):
    """Running sum along an axis.

    `exclusive` excludes the element itself, `reverse` runs from the end. 16-bit floats are summed
    in f32.
    """

    name = "graph.cumsum"
    NUMPY: ClassVar[Callable[..., Array]] = np.cumsum
    NEUTRAL: ClassVar[int] = 0

    @staticmethod
    def combine(before: Scalar, value: Scalar) -> Scalar:
        """Return the running sum plus an element."""
        return before + value


@irdl_op_definition
class CumprodOp(CumulativeOp):
    """Running product along an axis.

    `exclusive` excludes the element itself, `reverse` runs from the end. 16-bit floats are
    multiplied in f32.
    """

    name = "graph.cumprod"
    NUMPY: ClassVar[Callable[..., Array]] = np.cumprod
    NEUTRAL: ClassVar[int] = 1

    @staticmethod
    def combine(before: Scalar, value: Scalar) -> Scalar:
        """Return the running product times an element."""
        return before * value
