"""Operators that sum products of two operands, and the precision of the sums."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self

import numpy as np
from xdsl.dialects.builtin import f32, i16, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import opt_prop_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.binary import MulOp
from tcopt.dialects.graph.elementwise import same_element_type
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.quantize import is_quantized
from tcopt.dialects.graph.scaled import Scaled, ScaledOps
from tcopt.dialects.graph.shape import ReshapeOp
from tcopt.dialects.graph.stages import widen
from tcopt.dialects.graph.types import Array, element_type, is_half, shape_of, tensor
from tcopt.dialects.te import api as te

if TYPE_CHECKING:
    from tcopt.dialects.graph.bit_forms import BitForm
    from tcopt.dialects.graph.winograd_forms import WinogradForm


class ContractionOp(GraphOp, ABC):
    """Sum of products of data, the first operand, and weights, the second.

    Operands and result have one element type, unless `result_element` is set. Products of 16-bit
    floats are accumulated in f32; with `result_element = f32` the sums are not rounded afterwards.
    Integers of 8 and 16 bits, which may then differ in type, are summed in i32 with
    `result_element = i32`; the sums wrap around.
    """

    result_element = opt_prop_def(Attribute)

    @property
    def weights(self) -> SSAValue:
        """The operand that is constant in a layer of a network."""
        return self.operands[1]

    @property
    def stores_anywhere(self) -> bool:
        """Whether elements are completed in registers: sums are computed a tile at a time."""
        return True

    def sum_element(self) -> Attribute:
        """Return the result's element type; VerifyException if the operands cannot be summed in
        it."""
        wanted = self.result_element
        if wanted == i32 and all(is_quantized(element_type(x)) for x in self.operands):
            return i32
        element = same_element_type(*self.operands)
        if wanted is None or wanted == element:
            return element
        if wanted != f32 or not is_half(element):
            raise VerifyException(f"products of {element} cannot be summed in {wanted}")
        return wanted

    def widened(self, factor: te.Expr) -> te.Expr:
        """Convert a factor to the type in which products are summed."""
        return widen(te.cast(factor, i32) if self._sums_integers else factor)

    @property
    def _sums_integers(self) -> bool:
        return self.result_element == i32

    def compute_all(self, *arrays: Array) -> Sequence[Array]:
        """Evaluate the op with numpy; narrow integers in f64, in which their sums are exact."""
        if not self._sums_integers:
            return super().compute_all(*arrays)
        result = self.compute(*(array.astype(np.float64) for array in arrays))
        return (result.astype(np.int64),)

    def on_integers(self, operands: Sequence[Scaled]) -> ScaledOps | None:
        """Return products of 16-bit integers summed in i32; the scales multiply.

        Data has one scale; weights have one scale, or one for each channel of the result.
        """
        data, weights = operands
        shape = self._scale_shape(weights)
        if shape is None or not data.is_uniform:
            return None
        if any(element_type(x.integers) != i16 for x in operands):
            return None
        properties = {**self.properties, "result_element": i32}
        integers = type(self).create(
            operands=[x.integers for x in operands],
            result_types=[tensor(self.shape, i32)],
            properties=properties,
        )
        laid = ReshapeOp(weights.scale, shape)
        one = ReshapeOp(data.scale, ())
        return ScaledOps([integers], [laid, one, MulOp(laid, one)])

    def _scale_shape(self, weights: Scaled) -> list[int] | None:
        """Return the shape in which weight scales apply to the result; None if they vary along a
        summed axis."""
        if weights.is_uniform:
            return []
        linear, shape = self.linear_weight(), shape_of(weights.scale)
        rank = len(shape_of(weights.integers))
        if linear is None or rank - len(shape) > linear.axis:
            return None
        axis = linear.axis - rank
        if any(n != 1 for place, n in enumerate(shape) if place - len(shape) != axis):
            return None
        result = [1] * len(self.shape)
        result[linear.channel] = shape[axis]
        return result

    @property
    def takes_rows(self) -> bool:
        """Whether the op multiplies each row of data, its last axis, independently: see
        `on_rows`."""
        return False

    def on_rows(self, rows: SSAValue) -> ContractionOp:
        """Return the product of a matrix of rows and this op's weights. Requires `takes_rows`."""
        raise NotImplementedError

    @property
    def takes_panels(self) -> bool:
        """Whether a weight matrix may be stored in panels of columns, see `in_panels`."""
        return False

    @property
    def extents(self) -> tuple[int, int, int]:
        """Rows, columns and terms of one matrix product, for an op that takes panels."""
        raise NotImplementedError

    def in_panels(self, width: int) -> Sequence[Operation]:
        """Return ops for the same result, the last one producing it, with weights in panels of
        `width` columns, the last panel padded with zeros. Requires `takes_panels`."""
        raise NotImplementedError

    def takes_groups(self, group: int) -> bool:
        """Whether the op has a form whose weights store `group` consecutive terms of a sum
        together, as dot-product instructions need."""
        return False

    def in_groups(self, group: int) -> Sequence[Operation]:
        """Return ops for the same result with grouped weights, the last one producing it. Requires
        `takes_groups`."""
        raise NotImplementedError

    def in_computed_panels(
        self, width: int, group: int, insert: Callable[[Operation], SSAValue]
    ) -> Operation | None:
        """Return an op for the same result on weights computed by the network, not yet inserted.

        The weights are packed at run time into panels of `width` columns with `group` consecutive
        terms together. None if there is no such form.

        Args:
            insert: inserts an operand's producer before this op, unless an equal one exists.
        """
        return None

    @property
    def summed_axes(self) -> tuple[int, int] | None:
        """For a matrix product, the contracted axes of data and weights, as negative indices; None
        for other ops."""
        return None

    def winograd_form(self, of_pixels: bool) -> WinogradForm | str | None:
        """Return the Winograd form of a convolution, or the reason why it has none.

        Args:
            of_pixels: whether neighbours in memory are pixels, rather than channels of a block.

        Returns:
            None if the op is not a convolution of data in this layout.
        """
        return None

    @property
    def shared_filter(self) -> tuple[int, int] | None:
        """Taps and output phases in each dimension of a filter that tiles of the result may share
        in some layout; None if the op is not such a convolution."""
        return None

    def groups_apart(self) -> Sequence[Operation]:
        """Return one contraction for each group of a Winograd form with several groups, with their
        operands, and last the op that joins them."""
        raise NotImplementedError

    def bit_form(self) -> BitForm | None:
        """Return the form of the op on words of bits, for operands of few bits; None if there is
        none."""
        return None

    @property
    def sums_shifts(self) -> bool:
        """Whether a constant added to all data adds the constant times the sum of a channel's
        weights (`linear_weight`) to each element of the result."""
        return self.linear_weight() is not None

    def on_shifted(
        self, operands: Sequence[SSAValue], shift: int | SSAValue
    ) -> Sequence[Operation]:
        """Return ops for the same result on operands of another element type, with data shifted.

        Args:
            operands: data and weights.
            shift: constant included in each element of the data: a number, or a scalar of its type.
                It must be 0 unless the op `sums_shifts`.
        """
        return [self.on_operands(operands)]

    def on_operands(self, operands: Sequence[SSAValue]) -> Self:
        """Return the same op on operands of another element type, with an unchanged result type."""
        kept = {**self.properties}
        if element_type(operands[0]) != self.type.element_type:
            kept["result_element"] = self.type.element_type
        result = tensor(self.shape, self.type.element_type)
        return type(self).create(operands=operands, result_types=[result], properties=kept)
