"""Base classes of elementwise ops: broadcasting, type rules, and lifting of a scalar expression to
tensors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerType, TensorType, i1
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from tcopt.dialects.graph.core.constant import uniform_value
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.stages import read_broadcast, widen
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    broadcast_shapes,
    element_type,
    is_float,
    shape_of,
    tensor,
    type_of,
)
from tcopt.dialects.te import api as te


class Domain(StrEnum):
    """Element types that an elementwise op accepts."""

    FLOAT = "floating-point"
    NUMBER = "numeric"
    BOOL = "i1"
    INTEGRAL = "integer or i1"
    ANY = "any"

    def accepts(self, element: object) -> bool:
        """Whether an element type is in the domain."""
        match self:
            case Domain.FLOAT:
                return is_float(element)  # pyright: ignore[reportArgumentType]
            case Domain.NUMBER:
                return element != i1
            case Domain.BOOL:
                return element == i1
            case Domain.INTEGRAL:
                return isinstance(element, IntegerType)
            case _:
                return True


class ElementwiseOp(GraphOp, ABC):
    """An op whose result elements depend on the operands' elements at the same index.

    Operands broadcast as in numpy. `compute` is written with operators and numpy functions, which
    accept te expressions too (`np.exp(x)`, `np.where(x > 0, x, 0)`): called with the operands'
    elements, it returns the result element. An op that numpy and te compute by different formulas
    also defines `expression`.
    """

    ELEMENTWISE: ClassVar[bool] = True
    DOMAIN: ClassVar[Domain] = Domain.NUMBER
    EXACT: ClassVar[bool] = False
    """Whether the result needs no more significant bits than the operands and is not larger."""

    STEPS: ClassVar[bool] = False
    """Whether float results change in steps, as after rounding."""

    OF_SIZES: ClassVar[Callable[..., Any] | None] = None
    """The op as a function of integers that also takes sizes."""

    result = result_def(TensorType)

    @property
    def has_steps(self) -> bool:
        """Whether the class has steps, or the op converts floats to integers."""
        return self.STEPS or super().has_steps

    @property
    def exceeds_halves(self) -> bool:
        """Whether the result may need more than 16 bits, which holds unless the op is exact."""
        return not self.EXACT

    @abstractmethod
    def compute(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result's array for operands' arrays, or its element for operands' elements."""

    def compute_sizes(self, *arrays: Array) -> Array | None:
        """Apply `OF_SIZES` to each element."""
        function = type(self).OF_SIZES
        if function is None:
            return None
        return np.asarray(np.frompyfunc(function, len(arrays), 1)(*arrays), object)

    def expression(self, *args: Any, **kwargs: Any) -> te.Expr:
        """Return the expression of the result element, given the operands' elements."""
        return self.compute(*args, **kwargs)

    def tensor_expression(self, *inputs: te.Tensor) -> te.Tensor:
        """Return one stage that reads every operand with broadcasting.

        16-bit floats are computed in f32, as in `evaluate`.
        """
        element = self.type.element_type
        name = self.name.removeprefix("graph.")
        return te.compute(
            self.shape,
            lambda *axes: te.cast(
                self.expression(*(widen(read_broadcast(x, axes)) for x in inputs)), element
            ),
            name=name,
        )

    def check_domain(self, value: SSAValue) -> None:
        """Raise VerifyException unless the operand's element type is in the op's domain."""
        element = element_type(value)
        if not self.DOMAIN.accepts(element):
            raise VerifyException(f"expects {self.DOMAIN} elements, got {element}")


class Law(StrEnum):
    """Algebraic laws that make a unary op equal to an existing value."""

    IDENTITY = "f(x) = x"
    IDEMPOTENT = "f(f(x)) = f(x)"
    INVOLUTION = "f(f(x)) = x"


class UnaryOp(ElementwiseOp, ABC):
    """Elementwise op with one operand and a result of the same type."""

    LAW: ClassVar[Law | None] = None

    x = operand_def(TensorType)

    def __init__(self, x: SSAValue | Operation):
        super().__init__([x])

    def unchanged(self) -> SSAValue | None:
        """Return the value that equals the result by the op's law."""
        inner = self.x.owner
        is_repeated = isinstance(inner, type(self))
        if self.LAW is Law.IDENTITY or (self.LAW is Law.IDEMPOTENT and is_repeated):
            return self.x
        return inner.x if self.LAW is Law.INVOLUTION and is_repeated else None

    def infer(self) -> Sequence[AnyTensor]:
        """Return the operand's type."""
        self.check_domain(self.x)
        return (type_of(self.x),)


class BinaryOp(ElementwiseOp, ABC):
    """Elementwise op on two operands of one element type that broadcast as in numpy."""

    NEUTRAL_LHS: ClassVar[float | None] = None
    NEUTRAL_RHS: ClassVar[float | None] = None

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)

    def __init__(self, lhs: SSAValue | Operation, rhs: SSAValue | Operation):
        super().__init__([lhs, rhs])

    def unchanged(self) -> SSAValue | None:
        """Return one operand if the other is a uniform literal equal to the neutral element."""
        if self.NEUTRAL_RHS is not None and uniform_value(self.rhs) == self.NEUTRAL_RHS:
            return self.lhs
        if self.NEUTRAL_LHS is not None and uniform_value(self.lhs) == self.NEUTRAL_LHS:
            return self.rhs
        return None

    def infer(self) -> Sequence[AnyTensor]:
        """Return the broadcast shape with the operands' element type."""
        element = same_element_type(self.lhs, self.rhs)
        self.check_domain(self.lhs)
        return (tensor(broadcast_shapes(shape_of(self.lhs), shape_of(self.rhs)), element),)


def same_element_type(*values: SSAValue):
    """Return the element type that all values share; VerifyException if they differ."""
    elements = [element_type(value) for value in values]
    if any(element != elements[0] for element in elements):
        raise VerifyException(f"operands differ in element type: {', '.join(map(str, elements))}")
    return elements[0]
