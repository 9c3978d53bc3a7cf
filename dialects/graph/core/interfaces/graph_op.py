"""Base class of graph ops: types, evaluation and definition of an operator."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.ir.core import SSAValues
from xdsl.irdl import IRDLOperation, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.interfaces.folding import FoldingInterface
from tcopt.dialects.graph.core.interfaces.fusion import FusionInterface
from tcopt.dialects.graph.core.interfaces.memory import MemoryInterface
from tcopt.dialects.graph.core.interfaces.precision import PrecisionInterface
from tcopt.dialects.graph.core.interfaces.text import (
    parse_operands,
    parse_properties,
    print_operands,
    print_properties,
)
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    is_half,
    numpy_dtype,
    shape_of,
    tensor,
    type_of,
    zeros,
)
from tcopt.dialects.size import DimsAttr, verify_uses
from tcopt.dialects.te import api as te
from tcopt.support.arithmetic.sizes import is_fixed
from tcopt.support.errors import UndecidedSize
from tcopt.support.ir.quick_ir import init_op


class GraphOp(
    FusionInterface,
    MemoryInterface,
    PrecisionInterface,
    FoldingInterface,
    IRDLOperation,
    ABC,
):
    """An operator on static tensors.

    Text form: `%y = graph.conv %x, %w {strides = [2, 2]} : tensor<1x8x4x4xf32>`: operands,
    properties that differ from their defaults, result type. Operand types are not printed: they
    follow from the definitions of the operands.

    This class declares types, evaluation and the tensor expression. Everything else that passes ask
    is in interfaces, whose methods have defaults that are correct for every operator.
    """

    traits = traits_def(Pure())

    COUNTS_ON: ClassVar[str] = ""
    """Name of the form (`forms.py`) that a schedule rule must implement; empty if any rule will
    do."""

    def __init__(
        self,
        operands: Sequence[SSAValue | Operation],
        properties: Mapping[str, Attribute | None] | None = None,
        result_type: AnyTensor | None = None,
    ):
        """Build the op. Without `result_type`, types are inferred (VerifyException on failure)."""
        kept = {} if properties is None else {k: v for k, v in properties.items() if v is not None}
        values = [SSAValue.get(operand) for operand in operands]
        init_op(self, values, () if result_type is None else (result_type,), kept)
        if result_type is None:
            types = self.infer()
            self.results = SSAValues(OpResult(t, self, i) for i, t in enumerate(types))

    # Definition of the op.

    @abstractmethod
    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result types from operands and properties; VerifyException on a mismatch.

        Ops whose result type is a parameter (reshape, cast, slice, ...) check it and return it.
        """

    @abstractmethod
    def compute(self, *args: Any, **kwargs: Any) -> Array:
        """Evaluate the op with numpy, from one array for each operand.

        16-bit floats are passed as f32; `evaluate` rounds the value to the result's type.
        """

    def compute_all(self, *args: Any, **kwargs: Any) -> Sequence[Array]:
        """Evaluate all results with numpy; `compute` returns the only one of an op with one
        result."""
        return (self.compute(*args, **kwargs),)

    @abstractmethod
    def tensor_expression(self, *args: Any, **kwargs: Any) -> te.Tensor:
        """Return the te tensor of the result, given the te tensors of the operands."""

    @property
    def type(self) -> AnyTensor:
        """The type of the first result."""
        return type_of(self.results[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the first result; see `shape_of`."""
        return shape_of(self.results[0])

    @property
    def has_sizes(self) -> bool:
        """Whether a result's extent or a property is a size."""
        properties = self.properties.values()
        return any(isinstance(value, DimsAttr) for value in properties) or any(
            not is_fixed(shape_of(result)) for result in self.results
        )

    def with_operands(self, operands: Sequence[SSAValue], shape: Sequence[int]) -> Self:
        """Return the same op on other operands, with a result of another shape."""
        return type(self).create(
            operands=operands,
            result_types=[tensor(shape, self.type.element_type)],
            properties=dict(self.properties),
            attributes=dict(self.attributes),
        )

    def on_elements(self, x: SSAValue) -> Self:
        """Rebuild the op, which has one operand, on `x` and with the element type of `x`."""
        result = tensor(self.shape, type_of(x).element_type)
        return type(self).create(operands=[x], result_types=[result], properties=self.properties)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        """Evaluate the results with numpy, with the shapes and dtypes of the result types.

        `compute` is called only if some result has elements; empty results are created directly.
        """
        if not any(math.prod(shape_of(result)) for result in self.results):
            return tuple(zeros(type_of(result)) for result in self.results)
        wide = [
            array.astype(np.float32) if is_half(type_of(operand).element_type) else array
            for array, operand in zip(arrays, self.operands, strict=True)
        ]
        with np.errstate(all="ignore"):
            computed = self.compute_all(*wide)
        values: list[Array] = []
        for value, result in zip(computed, self.results, strict=True):
            dtype = numpy_dtype(type_of(result).element_type)
            values.append(np.asarray(value).astype(dtype, copy=False).reshape(shape_of(result)))
        return tuple(values)

    def verify_(self) -> None:
        """Check the result types against `infer`; operands and results must be static tensors."""
        for value in (*self.operands, *self.results):
            type = type_of(value)
            if not type.has_static_shape():
                raise VerifyException(f"{type} has a dynamic dimension")
        try:
            inferred = self.infer()
        except UndecidedSize as error:
            raise VerifyException(str(error)) from error
        if len(inferred) != len(self.results):
            raise VerifyException(f"expected {len(inferred)} results, got {len(self.results)}")
        for result, expected in zip(self.results, inferred, strict=True):
            if result.type != expected:
                raise VerifyException(
                    f"result has type {result.type}, but operands and attributes give {expected}"
                )
        verify_uses(self)

    # Printing and parsing.

    def print(self, printer: Printer) -> None:
        """Print operands, attributes and result types."""
        print_operands(printer, self.operands)
        print_properties(printer, self)
        printer.print_string(" : ")
        printer.print_list(self.result_types, printer.print_attribute)

    @classmethod
    def parse(cls, parser: Parser) -> GraphOp:
        """Parse the text form that `print` emits."""
        operands = parse_operands(parser)
        properties, attributes = parse_properties(parser, cls)
        parser.parse_punctuation(":")
        types = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_type, parser.parse_type
        )
        return cls.create(
            operands=operands,
            result_types=types or (),
            properties=properties,
            attributes=attributes,
        )
