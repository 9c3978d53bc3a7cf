"""The interface through which a handler imports a node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto, helper
from xdsl.dialects.builtin import TensorType, i64
from xdsl.ir import Attribute, Operation, SSAValue

from tcopt.dialects.graph import AddOp, CastOp, IotaOp
from tcopt.dialects.graph.control.host_call import HostCallOp
from tcopt.dialects.graph.core.types import (
    as_extents,
    numpy_dtype,
    shape_of,
    tensor,
)
from tcopt.dialects.graph.movement.gather import GatherOp
from tcopt.dialects.graph.movement.out_of_bounds import OutOfBoundsOp
from tcopt.dialects.graph.movement.shape import BroadcastToOp
from tcopt.dialects.graph.movement.slice import ConcatOp, SliceOp
from tcopt.frontends.onnx.context.builder import GraphBuilder, names_of
from tcopt.frontends.onnx.context.schemas import NodeSchema
from tcopt.frontends.onnx.model.errors import MeasuredError, MissingValuesError, OpenSizeError
from tcopt.frontends.onnx.model.tensors import text_of
from tcopt.frontends.onnx.model.types import element_type
from tcopt.support.arithmetic.sizes import is_fixed, lower_bound, upper_bound
from tcopt.support.errors import ImportModelError, UnsupportedError

T = TypeVar("T")

# Shapes, lists of axes and conditions are shorter; a splat in a malicious model may not be.
VALUE_LIMIT = 2**20


class NodeContext:
    """A node to import: its operands, attributes and constants, and the builder for new ops.

    Omitted attributes have the default value of ONNX's schema for the opset version. Errors raised
    by `malformed` and `unsupported` name the node.
    """

    def __init__(
        self,
        node: NodeProto,
        schema: NodeSchema,
        operands: Sequence[SSAValue | None],
        builder: GraphBuilder,
        opset: int,
        where: str,
    ):
        self.node = node
        self.op_type = node.op_type
        self.opset = opset
        self.builder = builder
        self.where = where
        self.operands = list(operands)
        self._schema = schema
        self._attributes = {attribute.name: attribute for attribute in node.attribute}

    # Operands

    def input(self, index: int) -> SSAValue:
        """Return operand `index`, which must be present."""
        value = self.optional_input(index)
        if value is None:
            self.malformed(f"input {index} is missing")
        return value

    def optional_input(self, index: int) -> SSAValue | None:
        """Return operand `index`; None if omitted."""
        return self.operands[index] if index < len(self.operands) else None

    def inputs(self) -> list[SSAValue]:
        """Return all operands, none of which may be omitted."""
        return [self.input(index) for index in range(len(self.operands))]

    def known(self, value: SSAValue | None) -> np.ndarray | None:
        """Return the array of a value that is known during import; otherwise None."""
        return None if value is None else self.builder.array_of(value)

    def constant(self, index: int, what: str) -> np.ndarray:
        """Return the value of operand `index`, which determines `what` and so must be known.

        Raises:
            MissingValuesError: it is not known; the error has the model inputs that it depends on.
        """
        return self.decided(self.input(index), what)

    def decided(self, operand: SSAValue, what: str) -> np.ndarray:
        """Return a value that must be known; see `constant`."""
        value = self.builder.value_of(operand)
        if operand in self.builder.texts:
            value = self.builder.array_of(operand)
        if value is None and (names := self.builder.sizes_behind(operand)):
            raise OpenSizeError(f"{what} of {self.op_type} is computed from sizes", names)
        if value is None:
            value = self._measured(operand, what, MissingValuesError)
        self.check(value.size <= VALUE_LIMIT, f"{what} has {value.size} values")
        return value

    def constant_ints(self, index: int, what: str) -> list[int]:
        """Return a 1-D or scalar integer operand as a list; see `constant`."""
        return self.known_ints(self.input(index), what)

    def known_ints(self, operand: SSAValue, what: str) -> list[int]:
        """Return a 1-D or scalar integer value as a list, in which sizes may be; see `decided`."""
        value = self.builder.sizes.get(operand)
        if value is None:
            value = self.decided(operand, what)
        if value.ndim > 1:
            self.malformed(f"{what} should be a 1-D tensor, not {list(value.shape)}")
        return as_extents(value.flat)

    def extents(
        self, index: int, what: str, low: int = 1, likely: Sequence[int | None] = ()
    ) -> list[int]:
        """Return a 1-D or scalar integer operand as a list of numbers and sizes.

        Computed integers become sizes where possible, see `ValueSizes.extents_of`. Otherwise they
        must be known; see `constant`.
        """
        found = self.data_extents(self.input(index), low, likely)
        return self.constant_ints(index, what) if found is None else found

    def data_extents(
        self, value: SSAValue, low: int = 1, likely: Sequence[int | None] = (), *, new: bool = True
    ) -> list[int] | None:
        """Return computed integers as `extents` does; None if they are known, or cannot be sizes.

        Args:
            new: whether to define sizes; otherwise, other nodes must have defined them.
        """
        builder = self.builder
        if builder.is_known(value) or not (builder.defines and builder.is_main):
            return None
        return builder.values.extents_of(value, low, likely, new=new)

    def constant_int(self, index: int, what: str) -> int:
        """Return an operand with a single integer; see `constant`."""
        values = self.constant_ints(index, what)
        self.check(len(values) == 1, f"{what} should be one number, not {values}")
        return values[0]

    def has_sizes(self, index: int) -> bool:
        """Whether operand `index` consists of integers some of which are sizes."""
        return self.optional_input(index) in self.builder.sizes

    def optional_constant_ints(self, index: int, what: str) -> list[int] | None:
        """Return an optional integer operand as a list; None if omitted. See `constant`."""
        if self.optional_input(index) is None:
            return None
        return self.constant_ints(index, what)

    # Attributes

    def has(self, name: str) -> bool:
        """Whether the node has the attribute explicitly."""
        return name in self._attributes

    def _get(self, name: str, kind: type[T], default: T | None) -> T | None:
        attribute = self._attributes.get(name)
        if attribute is None:
            value = self._schema.defaults.get(name, default)
        else:
            value = helper.get_attribute_value(attribute)
        if value is not None and not isinstance(value, kind):
            self.malformed(f"attribute {name!r} should be {kind.__name__}")
        return value

    def _require(self, name: str, value: T | None) -> T:
        if value is None:
            self.malformed(f"attribute {name!r} is missing")
        return value

    def get_int(self, name: str, default: int | None = None) -> int:
        """Return an integer attribute or its default; fail without either."""
        return self._require(name, self._get(name, int, default))

    def get_bool(self, name: str, default: int | None = None) -> bool:
        """Return an integer attribute as a Boolean."""
        return bool(self.get_int(name, default))

    def get_float(self, name: str, default: float | None = None) -> float:
        """Return a float attribute or its default; fail without either."""
        value = self._require(name, self._get(name, float, default))
        # Attributes have 32 bits: return 0.2, not 0.20000000298023224.
        return float(np.format_float_positional(np.float32(value))) if np.isfinite(value) else value

    def get_string(self, name: str, default: str | None = None) -> str:
        """Return a string attribute or its default; fail without either."""
        raw = self._get(name, bytes, None if default is None else default.encode())
        return self._require(name, raw).decode(errors="replace")

    def get_ints(self, name: str) -> list[int] | None:
        """Return an integer list attribute; None if omitted."""
        value: list[int] | None = self._get(name, list, None)
        return None if value is None else [int(v) for v in value]

    def get_floats(self, name: str) -> list[float] | None:
        """Return a float list attribute; None if omitted."""
        value: list[float] | None = self._get(name, list, None)
        return None if value is None else [float(v) for v in value]

    def get_int_array(self, name: str) -> np.ndarray:
        """Return an integer list attribute as a vector; empty if omitted."""
        attribute = self._attributes.get(name)
        if attribute is None or attribute.type != AttributeProto.INTS:
            return np.array(self.get_ints(name) or [], np.int64)
        return np.fromiter(attribute.ints, np.int64, len(attribute.ints))

    def get_float_array(self, name: str) -> np.ndarray:
        """Return a float list attribute as an f64 vector; empty if omitted."""
        attribute = self._attributes.get(name)
        if attribute is None or attribute.type != AttributeProto.FLOATS:
            return np.array(self.get_floats(name) or [], np.float64)
        return np.fromiter(attribute.floats, np.float64, len(attribute.floats))

    def get_bytes(self, name: str) -> list[bytes]:
        """Return a string list attribute as bytes; empty if omitted."""
        return self._get(name, list, None) or []

    def get_strings(self, name: str) -> list[str] | None:
        """Return a string list attribute; None if omitted."""
        value: list[bytes] | None = self._get(name, list, None)
        return None if value is None else [text_of(v, self.where) for v in value]

    def get_tensor(self, name: str) -> np.ndarray | None:
        """Return a tensor attribute; None if omitted."""
        attribute = self._attributes.get(name)
        if attribute is None or attribute.type != AttributeProto.TENSOR:
            return None
        return self.builder.reader.read(attribute.t, self.where)

    def get_sparse_tensor(self, name: str) -> np.ndarray | None:
        """Return a sparse tensor attribute as a dense array; None if omitted."""
        attribute = self._attributes.get(name)
        if attribute is None or attribute.type != AttributeProto.SPARSE_TENSOR:
            return None
        return self.builder.dense(attribute.sparse_tensor, self.where)

    def get_element_type(self, name: str, default: int = TensorProto.UNDEFINED) -> Attribute | None:
        """Return a `to` or `dtype` attribute as an IR element type; None if omitted."""
        number = self.get_int(name, default)
        return None if number == TensorProto.UNDEFINED else element_type(number, self.where)

    # Shapes

    def shape(self, value: SSAValue) -> tuple[int, ...]:
        """Return the extents of a value; some may be sizes."""
        return shape_of(value)

    def rank(self, value: SSAValue) -> int:
        """Return the rank of a value."""
        return len(shape_of(value))

    def element(self, value: SSAValue) -> Attribute:
        """Return the element type of a value."""
        return tensor_type(value).element_type

    def axis(self, axis: int, rank: int) -> int:
        """Normalise `axis` to be non-negative; fail unless -rank <= axis < rank."""
        if not -rank <= axis < rank:
            self.malformed(f"axis {axis} is out of range for {rank} dimensions")
        return axis % rank

    def axes(self, axes: Sequence[int], rank: int) -> list[int]:
        """Normalise a list of axes without duplicates; the order is preserved."""
        found = [self.axis(axis, rank) for axis in axes]
        if len(set(found)) != len(found):
            self.malformed(f"axes {list(axes)} repeat a dimension")
        return found

    # Results

    @property
    def may_bound(self) -> bool:
        """Whether results may be padded to their maximum shape; `bounded` sets the valid extent."""
        return self.builder.may_bound

    def bounded(self, value: SSAValue, axis: int, count: SSAValue) -> SSAValue:
        """Return the first `count` ([1], i64) slices of a value along an axis.

        Without `builder.defines`, the value is returned, and its extents are results of the stage.

        Raises:
            MeasuredError: in a loop, or without `defines` in a function or subgraph; the next stage
                imports it with a known count.
        """
        builder, extents = self.builder, list(shape_of(value))
        if builder.defines and builder.is_main:
            size = builder.defined.define(self.node.output[0], count, extents[axis])
            if not is_fixed([extents[axis]]):
                # The ranges do not say that one size is at most the other one.
                return self.moved(value, GatherOp(value, self.positions(size), axis=axis))
            extents[axis] = size
            return self._first(value, extents)
        if builder.depth:
            (extents[axis],) = self.measured(count, "the number of results")
            return self._first(value, extents)
        counts = [self.sizes([n]) for n in extents]
        counts[axis] = count
        builder.extents[value] = self.emit(ConcatOp(counts, axis=0))
        return value

    def _first(self, value: SSAValue, extents: Sequence[int]) -> SSAValue:
        """Return the first elements of a value along each axis."""
        return self.moved(value, SliceOp(value, [0] * len(extents), extents))

    def moved(self, value: SSAValue, op: Operation) -> SSAValue:
        """Append an op that moves elements of a value, which may be strings."""
        result = self.emit(op)
        self.builder.mark_texts([value], [result])
        return result

    def emit(self, op: Operation) -> SSAValue:
        """Append a graph op with a single result, unless it folds to a small constant."""
        return self.builder.emit(op)

    def in_function(self, builder: GraphBuilder) -> NodeContext:
        """Return a context for the body of a function: one whose ops go to another builder."""
        return NodeContext(self.node, self._schema, [], builder, self.opset, self.where)

    def require(self, value: SSAValue, low: int, high: int, what: str) -> None:
        """Reject values outside a range: during import if they are known, otherwise at run time.

        Args:
            value: integers of any shape.
            low, high: inclusive bounds.
            what: description for messages, such as "indices".
        """
        if 0 in shape_of(value):
            return
        known = self.known(value)
        if known is not None:
            known = known[(0,) * known.ndim] if not any(known.strides) else known
            least, most = int(known.min()), int(known.max())
            rooms = least - low, high - most
            self.check(
                all(upper_bound(room) >= 0 for room in rooms),
                f"{what} from {least} to {most} should be from {low} to {high}",
            )
            if all(lower_bound(room) >= 0 for room in rooms):
                return
        message = f"{self.op_type}: {what} should be from {low} to {high}"
        refused = self.emit(OutOfBoundsOp(value, low=low, high=high))
        self.builder.checks.append((f"{message} (at {self.where})", refused))

    def is_text(self, value: SSAValue) -> bool:
        """Whether a value is a string tensor, i.e. has indices into the string table."""
        return value in self.builder.texts

    def text(self, value: SSAValue) -> SSAValue:
        """Mark a value as a string tensor."""
        self.builder.texts.add(value)
        return value

    def get_seed(self) -> float | None:
        """Return the attribute `seed` of a random operator; None if it is absent."""
        if not self.has("seed"):
            return None
        value = self._get("seed", object, None)
        self.check(isinstance(value, int | float), "attribute 'seed' should be a number")
        return float(value)  # pyright: ignore[reportArgumentType]

    def random_key(self) -> SSAValue:
        """Return the key of the run's random numbers.

        Raises:
            UnsupportedError: in a loop body, where every iteration would draw the same numbers.
        """
        key = self.builder.random_key()
        if key is None:
            self.unsupported(
                f"{self.op_type} without a seed in a loop that is not unrolled is not supported"
            )
        return key

    def place_of(self, text: str) -> int:
        """Return the index of a string in the model's string table."""
        return self.builder.strings.place(text)

    def host(
        self,
        function: str,
        operands: Sequence[SSAValue],
        shape: Sequence[int],
        element: Attribute | None = None,
        **settings: Any,
    ) -> SSAValue:
        """Call a host function, see `support.host.host_functions`; return its result.

        Args:
            element: element type of the result; None for strings.
            settings: settings of the function in addition to operands.
        """
        extents = [*shape, *(n for value in operands for n in shape_of(value))]
        if names := names_of(extents):
            raise OpenSizeError(f"{function} is computed by the host", names)
        types = [tensor(shape, i64 if element is None else element)]
        result = self.emit(HostCallOp(function, operands, types, settings))
        return self.text(result) if element is None else result

    def measured(self, value: SSAValue, what: str) -> list[int]:
        """Return data-dependent integers that determine shapes; known from the next stage on.

        Raises:
            MeasuredError: they are not known yet.
        """
        known = self.builder.sizes.get(value, self.builder.value_of(value))
        if known is None:
            known = self._measured(value, what, MeasuredError)
        return as_extents(known.flat)

    def _measured(self, value: SSAValue, what: str, kind: type[MissingValuesError]) -> np.ndarray:
        """Return a value computed by an earlier stage; raise a `kind` error if there is none."""
        what = f"{what} of {self.op_type}"
        known = self.builder.measured_value(what, self.where)
        if known is None:
            raise self.builder.missing(value, what, self.where, kind)
        return known

    def literal(self, value: np.ndarray | Sequence[int] | float, like: SSAValue) -> SSAValue:
        """Add a constant with the element type of `like`."""
        dtype = numpy_dtype(tensor_type(like).element_type)
        return self.builder.constant(np.asarray(value).astype(dtype))

    def zeros(self, shape: Sequence[int], element: Attribute) -> SSAValue:
        """Add a constant of zeros, which needs no memory for the elements."""
        return self.splat(shape, numpy_dtype(element).type(0))

    def splat(self, shape: Sequence[int], value: np.generic) -> SSAValue:
        """Add a constant whose elements are all `value`; a broadcast if extents are sizes."""
        if is_fixed(shape):
            return self.builder.splat(tuple(shape), value)
        return self.emit(BroadcastToOp(self.array(np.asarray(value)), shape))

    def array(self, value: np.ndarray) -> SSAValue:
        """Add a constant with the array's own type."""
        return self.builder.constant(value)

    def sizes(self, values: Sequence[int] | int) -> SSAValue:
        """Add a vector or scalar of i64 numbers, some of which may be sizes."""
        array = np.empty(np.shape(values), object)
        array[...] = values
        return self.builder.size_values(array, np.dtype(np.int64))

    def positions(self, count: int, like: SSAValue | None = None, start: int = 0) -> SSAValue:
        """Add `count` consecutive integers, with the element type of `like`, by default i64."""
        element = i64 if like is None else self.element(like)
        if is_fixed((count, start)):
            return self.array(np.arange(start, start + count).astype(numpy_dtype(element)))
        places = self.emit(IotaOp((count,), element))
        if start == 0:
            return places
        first = self.sizes(start)
        return self.emit(
            AddOp(places, first if element == i64 else self.emit(CastOp(first, element)))
        )

    def output_used(self, index: int) -> bool:
        """Whether the node has a name for its output `index`."""
        return index < len(self.node.output) and bool(self.node.output[index])

    def single_output(self, what: str) -> None:
        """Raise UnsupportedError if an output other than the first is used."""
        if any(self.output_used(i) for i in range(1, len(self.node.output))):
            self.unsupported(f"{what} of {self.op_type} is not supported")

    # Errors

    def malformed(self, message: str, hint: str | None = None) -> NoReturn:
        """Raise ImportModelError for this node."""
        raise ImportModelError(f"{self.op_type}: {message}", where=self.where, hint=hint)

    def unsupported(self, message: str) -> NoReturn:
        """Raise UnsupportedError for this node; all such errors are reported together."""
        raise UnsupportedError(message, where=self.where)

    def check(self, condition: Any, message: str) -> None:
        """Raise ImportModelError for this node unless `condition` holds."""
        if not condition:
            self.malformed(message)


def tensor_type(value: SSAValue) -> TensorType[Attribute]:
    """Return the type of a value, which is always a ranked tensor here."""
    assert isinstance(value.type, TensorType)
    return value.type


def count_of(value: SSAValue) -> int:
    """Return the number of elements of a value."""
    return math.prod(shape_of(value))
