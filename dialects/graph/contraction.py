"""Operators that sum products of two operands, and the precision in which they do."""

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
    """Products of data, the first operand, and weights, the second, summed.

    Both have one element type, and so has the result, unless `result_element` says otherwise:
    sums of 16-bit floats are made in f32, and with `result_element = f32` they stay that,
    so that what follows takes them unrounded. Integers of 8 and 16 bits, which may then differ
    in type, are summed in i32 with `result_element = i32`; larger sums wrap around.
    """

    result_element = opt_prop_def(Attribute)

    @property
    def weights(self) -> SSAValue:
        """The operand that is constant in a layer of a network."""
        return self.operands[1]

    @property
    def stores_anywhere(self) -> bool:
        """Sums are made a tile at a time."""
        return True

    def sum_element(self) -> Attribute:
        """Element type of the result; VerifyException if operands do not add up to it."""
        wanted = self.result_element
        if wanted == i32 and all(is_quantized(element_type(x)) for x in self.operands):
            return i32
        element = same_element_type(*self.operands)
        if wanted is None or wanted == element:
            return element
        if wanted != f32 or not is_half(element):
            raise VerifyException(f"products of {element} are not summed in {wanted}")
        return wanted

    def widened(self, factor: te.Expr) -> te.Expr:
        """A factor in the type in which products are summed."""
        return widen(te.cast(factor, i32) if self._sums_integers else factor)

    @property
    def _sums_integers(self) -> bool:
        return self.result_element == i32

    def compute_all(self, *arrays: Array) -> Sequence[Array]:
        """The result by numpy; narrow integers by way of f64, in which their sums are exact."""
        if not self._sums_integers:
            return super().compute_all(*arrays)
        result = self.compute(*(array.astype(np.float64) for array in arrays))
        return (result.astype(np.int64),)

    def on_integers(self, operands: Sequence[Scaled]) -> ScaledOps | None:
        """Products of 16-bit integers, whose scales multiply, summed in i32.

        Data has one scale; weights have one, or one for each channel of the result.
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
        """The shape that weights' scales have for the result; None if it depends on terms."""
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
        """Whether rows of data, its last axis, are multiplied each on its own: see `on_rows`."""
        return False

    def on_rows(self, rows: SSAValue) -> ContractionOp:
        """The product of a matrix of rows and the weights of this one, which takes rows."""
        raise NotImplementedError

    @property
    def takes_panels(self) -> bool:
        """Whether weights that are a matrix may be stored in panels of columns, see `in_panels`."""
        return False

    @property
    def extents(self) -> tuple[int, int, int]:
        """Rows, columns and terms of one product of matrices, of an op that takes panels."""
        raise NotImplementedError

    def in_panels(self, width: int) -> Sequence[Operation]:
        """Ops for the same result, the last of which gives it, where weights are panels of `width`
        columns, the last one filled with zeros; of an op that takes panels."""
        raise NotImplementedError

    def takes_groups(self, group: int) -> bool:
        """Whether there is a form whose weights hold `group` terms of a sum side by side, as dot
        product instructions take them."""
        return False

    def in_groups(self, group: int) -> Sequence[Operation]:
        """Ops for the same result in that form, the last of which gives it, where there is one."""
        raise NotImplementedError

    def in_computed_panels(
        self, width: int, group: int, insert: Callable[[Operation], SSAValue]
    ) -> Operation | None:
        """An op, not yet inserted, for the same result, whose weights are matrices that the network
        itself puts into panels of `width` columns with `group` terms side by side; None without
        such a form.

        Args:
            insert: puts an op that it reads in front of this one, unless an equal one is there.
        """
        return None

    @property
    def summed_axes(self) -> tuple[int, int] | None:
        """The axis of data and that of weights along which products are summed, counted from the
        last, where each of the other elements meets each: a product of matrices; None for others.
        """
        return None

    def winograd_form(self, of_pixels: bool) -> WinogradForm | str | None:
        """How the op convolves by kernels that tiles of the result share, or why it does not.

        Args:
            of_pixels: whether neighbours in memory are pixels, rather than channels of a block.

        Returns:
            None for what is not a convolution of data that is stored so.
        """
        return None

    @property
    def shared_filter(self) -> tuple[int, int] | None:
        """Taps, and phases of the result, in each dimension, of a filter that tiles of the result
        may share in some layout; None for what is no such convolution.
        """
        return None

    def groups_apart(self) -> Sequence[Operation]:
        """Contractions of the groups of one whose Winograd form has several, what they read, and,
        last, what joins them."""
        raise NotImplementedError

    def bit_form(self) -> BitForm | None:
        """What the op is on words of bits, where its operands are numbers of few bits; None
        without such a form."""
        return None

    @property
    def sums_shifts(self) -> bool:
        """Whether a number added to all data adds that times the sum of a channel's weights
        (`linear_weight`) to each element of the result."""
        return self.linear_weight() is not None

    def on_shifted(
        self, operands: Sequence[SSAValue], shift: int | SSAValue
    ) -> Sequence[Operation]:
        """Ops for the same on operands of another element type, data with a shift.

        Args:
            operands: data and weights.
            shift: what each element of data is more: a number, or a scalar of its type. It is 0
                unless the op sums shifts.
        """
        return [self.on_operands(operands)]

    def on_operands(self, operands: Sequence[SSAValue]) -> Self:
        """The same op on operands of another element type, whose result has the type of now."""
        kept = {**self.properties}
        if element_type(operands[0]) != self.type.element_type:
            kept["result_element"] = self.type.element_type
        result = tensor(self.shape, self.type.element_type)
        return type(self).create(operands=operands, result_types=[result], properties=kept)
