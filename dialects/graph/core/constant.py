"""Constants: weights named in a side store, literals, index ramps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IntegerType,
    SymbolRefAttr,
    TensorType,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from tcopt.dialects.graph.core.attributes import FusionKind, Int, integer
from tcopt.dialects.graph.core.interfaces import GraphOp, parse_properties, print_properties
from tcopt.dialects.graph.core.types import AnyTensor, Array, element_of, like, numpy_dtype, tensor
from tcopt.dialects.graph.core.weights import WeightStore
from tcopt.dialects.te import api as te
from tcopt.support.arithmetic.reachability import Reaches
from tcopt.support.data.dtypes import is_narrow

# Typed as Any, because its type parameter does not admit all element types of graph tensors.
Dense: type[Any] = DenseIntOrFPElementsAttr


@irdl_op_definition
class ConstantOp(GraphOp, HasFolderInterface):
    """A weight of the module's side store (`@name`) or an inline literal (`dense<..>`)."""

    name = "graph.constant"
    traits = traits_def(ConstantLike())
    FUSION: ClassVar[FusionKind] = FusionKind.OPAQUE

    weight_ref = opt_prop_def(SymbolRefAttr, prop_name="weight")
    value = opt_prop_def(DenseIntOrFPElementsAttr)
    result = result_def(TensorType)

    def __init__(self, source: SymbolRefAttr | Attribute, type: AnyTensor):
        """Build from an attribute; `ConstantOp.weight` and `ConstantOp.literal` are preferred."""
        key = "weight" if isinstance(source, SymbolRefAttr) else "value"
        super().__init__([], {key: source}, type)

    @classmethod
    def weight(cls, name: str, type: AnyTensor) -> ConstantOp:
        """Refer to a weight of the side store."""
        return cls(SymbolRefAttr(name), type)

    @classmethod
    def literal(cls, value: Any, element: Attribute | None = None) -> ConstantOp:
        """Build an inline literal from an array or anything that numpy converts to one.

        Args:
            value: the elements. A uniform array is stored as one element.
            element: the element type, by default the array's.
        """
        array = np.asarray(value, None if element is None else numpy_dtype(element))
        type = like(array)
        return cls(dense(array), type)

    @classmethod
    def add_weight(cls, store: WeightStore, value: Array, hint: str) -> ConstantOp:
        """Add a weight to a store under a name made from `hint`, and refer to it."""
        return cls.weight(store.add(value, hint), like(value))

    @property
    def is_splat(self) -> bool:
        """Whether this is a literal stored as one element."""
        itemsize = numpy_dtype(self.type.element_type).itemsize
        return self.value is not None and len(self.value.data.data) == itemsize

    @property
    def weight_name(self) -> str | None:
        """Name in the side store; None for a literal."""
        return None if self.weight_ref is None else self.weight_ref.string_value()

    @property
    def literal_value(self) -> Array | None:
        """The literal as a read-only array; None for a weight."""
        return None if self.value is None else array_of(self.value)

    def infer(self) -> Sequence[AnyTensor]:
        """Return the declared type, which must be the type of the literal."""
        if (self.weight_ref is None) == (self.value is None):
            raise VerifyException("needs a weight name or a literal, and not both")
        if self.value is not None and self.value.type != self.type:
            raise VerifyException(f"a literal of type {self.value.type} is declared as {self.type}")
        numpy_dtype(self.type.element_type)
        return (self.type,)

    def compute(self) -> Array:
        """Return the literal; ValueError for a weight, whose value is only in the store."""
        value = self.literal_value
        if value is None:
            raise ValueError(f"the value of weight @{self.weight_name} is in the weight store")
        return value

    def tensor_expression(self, *inputs: te.Tensor) -> te.Tensor:
        """Return a uniform literal as one stage."""
        value = self.compute()
        if value.size == 0 or not (value == value.flat[0]).all():
            raise ValueError("only a uniform constant is a tensor expression")
        scalar = te.const(value.flat[0].item(), self.type.element_type)
        return te.compute(self.shape, lambda *axes: scalar, name="constant")

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """Return the literal as an attribute."""
        return None if self.value is None else (self.value,)

    def print(self, printer: Printer) -> None:
        """Print ` @name : type` or ` dense<..> : type`."""
        printer.print_string(" ")
        if self.weight_ref is not None:
            printer.print_attribute(self.weight_ref)
        elif self.value is not None:
            printer.print_attribute(Dense(self.value.type, self.value.data))
        print_properties(printer, self, hidden=("weight", "value"))
        if self.weight_ref is not None:
            printer.print_string(" : ")
            printer.print_attribute(self.type)

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        """Parse the text form that `print` emits."""
        source: Any = parser.parse_attribute()
        _, attributes = parse_properties(parser, cls)
        if isinstance(source, Dense | DenseResourceAttr):
            type = source.type
        else:
            parser.parse_punctuation(":")
            type = parser.parse_type()
        if not isa(type, AnyTensor):
            parser.raise_error("expected a tensor type")
        if not isinstance(source, SymbolRefAttr | Dense | DenseResourceAttr):
            parser.raise_error("expected a weight name, a dense literal or a resource")
        op = cls(cast(Attribute, source), type)
        op.normalize_parsed()
        op.attributes.update(attributes)
        return op

    def normalize_parsed(self) -> None:
        """Store a uniform literal as one element, as the parser repeats the element."""
        if isinstance(value := self.properties.get("value"), Dense):
            self.properties["value"] = dense(array_of(value))


def is_uniform(array: Array) -> bool:
    """Whether an array is non-empty and all its elements have the same bits."""
    if array.size <= 1 or not any(array.strides):
        return array.size > 0
    # Comparing a few elements first avoids a pass over most arrays.
    return _alike(array.flat[:64]) and _alike(array)


def _alike(array: Array) -> bool:
    flat = np.ascontiguousarray(array).reshape(-1).view(f"u{array.itemsize}")
    return bool((flat == flat[0]).all())


def uniform_value(value: SSAValue) -> float | int | bool | None:
    """Return the value of all elements of a uniform literal; None for other values."""
    op = value.owner
    array = op.literal_value if isinstance(op, ConstantOp) else None
    return None if array is None or not is_uniform(array) else array.flat[0].item()


def dense(array: Array) -> Attribute:
    """Return a dense attribute of an array; a uniform array is stored as one element."""
    data = array.reshape(-1)[:1] if is_uniform(array) else array
    return Dense(like(array), BytesAttr(np.ascontiguousarray(_dense_form(data)).tobytes()))


def _dense_form(array: Array) -> Array:
    """Convert to the storage of dense attributes: narrow integers by value, not by bit pattern."""
    element = element_of(array.dtype)
    return array.astype(np.int8) if _is_narrow_integer(element) else array


def _is_narrow_integer(element: Attribute) -> bool:
    return isinstance(element, IntegerType) and is_narrow(cast(Attribute, element))


def array_of(value: Any) -> Array:
    """Return the read-only array of a dense attribute."""
    if not isinstance(value, Dense):
        raise VerifyException(f"expected a dense literal, got {value}")
    shape = value.type.get_shape()
    element = value.type.element_type
    if _is_narrow_integer(element):
        data = np.frombuffer(value.data.data, np.int8).astype(numpy_dtype(element))
    else:
        data = np.frombuffer(value.data.data, numpy_dtype(element))
    return np.broadcast_to(data[0], shape) if data.size == 1 else data.reshape(shape)


@irdl_op_definition
class IotaOp(GraphOp):
    """The index along an axis: 0, 1, 2, ..., repeated over the other axes."""

    name = "graph.iota"

    axis = prop_def(Int, default_value=integer(0))
    result = result_def(TensorType)

    def __init__(self, shape: Sequence[int], element: Attribute, *, axis: int = 0):
        super().__init__([], {"axis": integer(axis)}, tensor(shape, element))
        self.infer()

    def infer(self) -> Sequence[AnyTensor]:
        """Return the declared type."""
        if not 0 <= self.axis.value.data < len(self.shape):
            raise VerifyException(f"axis {self.axis.value.data} is outside {self.type}")
        numpy_dtype(self.type.element_type)
        return (self.type,)

    def compute(self) -> Array:
        """Evaluate the op with numpy."""
        axis = self.axis.value.data
        shape = [1] * len(self.shape)
        shape[axis] = self.shape[axis]
        return np.broadcast_to(np.arange(self.shape[axis]).reshape(shape), self.shape)

    def tensor_expression(self, *inputs: te.Tensor) -> te.Tensor:
        """Return one stage whose element is its index."""
        axis, element = self.axis.value.data, self.type.element_type
        return te.compute(self.shape, lambda *axes: te.cast(axes[axis], element), name="iota")


class ConstantValues:
    """Set of the values computed from constants alone, which constant folding can evaluate.

    Results are cached, so each op is visited once in the lifetime of an instance; a pass that
    reuses one takes linear time.
    """

    def __init__(self) -> None:
        self._is_computed = Reaches(_operands_unless_data)

    def __contains__(self, value: SSAValue) -> bool:
        return not self._is_computed(value)


def _operands_unless_data(value: SSAValue) -> Sequence[SSAValue] | None:
    owner = value.owner
    if not isinstance(owner, GraphOp) or owner.has_sizes:
        return None
    return owner.operands


def is_made_of_constants(value: SSAValue) -> bool:
    """Whether a value is computed from constants alone. Passes use `ConstantValues`, which
    caches."""
    return value in ConstantValues()
