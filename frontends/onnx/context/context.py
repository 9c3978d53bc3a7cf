"""What a handler sees of the node it imports."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto, helper
from xdsl.dialects.builtin import TensorType, i1, i64
from xdsl.ir import Attribute, Operation, SSAValue

from tcopt.dialects.graph.host_call import HostCallOp
from tcopt.dialects.graph.out_of_bounds import OutOfBoundsOp
from tcopt.dialects.graph.scan import ScanOp
from tcopt.dialects.graph.slice import ConcatOp, SliceOp
from tcopt.dialects.graph.types import AnyTensor, numpy_dtype, tensor
from tcopt.frontends.onnx.context.builder import GraphBuilder
from tcopt.frontends.onnx.context.schemas import NodeSchema
from tcopt.frontends.onnx.model.errors import MeasuredError, MissingValuesError
from tcopt.frontends.onnx.model.tensors import text_of
from tcopt.frontends.onnx.model.types import element_type
from tcopt.support.errors import ImportModelError, UnsupportedError

T = TypeVar("T")

# No shape, list of axes or condition is longer; a splat of a hostile model may be.
VALUE_LIMIT = 2**20


class NodeContext:
    """One node: its operands, attributes and constants, and the builder to emit ops with.

    Attributes that the node leaves out take the default of ONNX's schema for its version.
    Errors raised through `malformed` and `unsupported` name the node.
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
        """Operand `index`, which must be present."""
        value = self.optional_input(index)
        if value is None:
            self.malformed(f"input {index} is missing")
        return value

    def optional_input(self, index: int) -> SSAValue | None:
        """Operand `index`, None when left out."""
        return self.operands[index] if index < len(self.operands) else None

    def inputs(self) -> list[SSAValue]:
        """All operands, none of which may be left out."""
        return [self.input(index) for index in range(len(self.operands))]

    def known(self, value: SSAValue | None) -> np.ndarray | None:
        """The value if it is known while importing, else None."""
        return None if value is None else self.builder.array_of(value)

    def constant(self, index: int, what: str) -> np.ndarray:
        """The value of operand `index`, which decides `what` and so must be known now.

        Raises:
            MissingValuesError: naming the model inputs it is computed from.
        """
        return self.decided(self.input(index), what)

    def decided(self, operand: SSAValue, what: str) -> np.ndarray:
        """As `constant`, of any value."""
        value = self.builder.value_of(operand)
        if operand in self.builder.texts:
            value = self.builder.array_of(operand)
        if value is None:
            value = self._measured(operand, what, MissingValuesError)
        self.check(value.size <= VALUE_LIMIT, f"{what} has {value.size} values")
        return value

    def constant_ints(self, index: int, what: str) -> list[int]:
        """As `constant`, a 1-D (or scalar) integer operand as a list."""
        return self.known_ints(self.input(index), what)

    def known_ints(self, operand: SSAValue, what: str) -> list[int]:
        """As `constant_ints`, of any value."""
        value = self.decided(operand, what)
        if value.ndim > 1:
            self.malformed(f"{what} should be a 1-D tensor, not {list(value.shape)}")
        return [int(v) for v in value.reshape(-1)]

    def constant_int(self, index: int, what: str) -> int:
        """As `constant`, an operand that holds one integer."""
        values = self.constant_ints(index, what)
        self.check(len(values) == 1, f"{what} should be one number, not {values}")
        return values[0]

    def optional_constant_ints(self, index: int, what: str) -> list[int] | None:
        """As `constant_ints`, None when the operand is left out."""
        if self.optional_input(index) is None:
            return None
        return self.constant_ints(index, what)

    # Attributes

    def has(self, name: str) -> bool:
        """Whether the node itself states the attribute."""
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
        """An integer attribute, its default, or an error."""
        return self._require(name, self._get(name, int, default))

    def get_bool(self, name: str, default: int | None = None) -> bool:
        """An integer attribute that means true when not zero."""
        return bool(self.get_int(name, default))

    def get_float(self, name: str, default: float | None = None) -> float:
        """A float attribute, its default, or an error."""
        value = self._require(name, self._get(name, float, default))
        # Attributes are 32-bit: print 0.2, not 0.20000000298023224.
        return float(np.format_float_positional(np.float32(value))) if np.isfinite(value) else value

    def get_string(self, name: str, default: str | None = None) -> str:
        """A string attribute, its default, or an error."""
        raw = self._get(name, bytes, None if default is None else default.encode())
        return self._require(name, raw).decode(errors="replace")

    def get_ints(self, name: str) -> list[int] | None:
        """An integer list attribute, None when left out."""
        value: list[int] | None = self._get(name, list, None)
        return None if value is None else [int(v) for v in value]

    def get_floats(self, name: str) -> list[float] | None:
        """A float list attribute, None when left out."""
        value: list[float] | None = self._get(name, list, None)
        return None if value is None else [float(v) for v in value]

    def get_int_array(self, name: str) -> np.ndarray:
        """An integer list attribute as a vector, an empty one when left out."""
        attribute = self._attributes.get(name)
        if attribute is None or attribute.type != AttributeProto.INTS:
            return np.array(self.get_ints(name) or [], np.int64)
        return np.fromiter(attribute.ints, np.int64, len(attribute.ints))

    def get_float_array(self, name: str) -> np.ndarray:
        """A float list attribute as a vector of f64, an empty one when left out."""
        attribute = self._attributes.get(name)
        if attribute is None or attribute.type != AttributeProto.FLOATS:
            return np.array(self.get_floats(name) or [], np.float64)
        return np.fromiter(attribute.floats, np.float64, len(attribute.floats))

    def get_bytes(self, name: str) -> list[bytes]:
        """A string list attribute as it is stored, empty when left out."""
        return self._get(name, list, None) or []

    def get_strings(self, name: str) -> list[str] | None:
        """A string list attribute, None when left out."""
        value: list[bytes] | None = self._get(name, list, None)
        return None if value is None else [text_of(v, self.where) for v in value]

    def get_tensor(self, name: str) -> np.ndarray | None:
        """A tensor attribute, None when left out."""
        attribute = self._attributes.get(name)
        if attribute is None or attribute.type != AttributeProto.TENSOR:
            return None
        return self.builder.reader.read(attribute.t, self.where)

    def get_sparse_tensor(self, name: str) -> np.ndarray | None:
        """A sparse tensor attribute with all its elements, None when left out."""
        attribute = self._attributes.get(name)
        if attribute is None or attribute.type != AttributeProto.SPARSE_TENSOR:
            return None
        return self.builder.dense(attribute.sparse_tensor, self.where)

    def get_element_type(self, name: str, default: int = TensorProto.UNDEFINED) -> Attribute | None:
        """A `to` or `dtype` attribute as an IR element type, None when left out."""
        number = self.get_int(name, default)
        return None if number == TensorProto.UNDEFINED else element_type(number, self.where)

    # Shapes

    def shape(self, value: SSAValue) -> tuple[int, ...]:
        """The static shape of a value."""
        return shape_of(value)

    def rank(self, value: SSAValue) -> int:
        """The number of dimensions of a value."""
        return len(shape_of(value))

    def element(self, value: SSAValue) -> Attribute:
        """The element type of a value."""
        return tensor_type(value).element_type

    def axis(self, axis: int, rank: int) -> int:
        """`axis` counted from the front; an error unless -rank <= axis < rank."""
        if not -rank <= axis < rank:
            self.malformed(f"axis {axis} is out of range for {rank} dimensions")
        return axis % rank

    def axes(self, axes: Sequence[int], rank: int) -> list[int]:
        """As `axis` for a list, which must not repeat one; in the order given."""
        found = [self.axis(axis, rank) for axis in axes]
        if len(set(found)) != len(found):
            self.malformed(f"axes {list(axes)} name one dimension twice")
        return found

    # Results

    @property
    def may_bound(self) -> bool:
        """Whether results may have their largest shape, of which `bounded` says what is valid."""
        return self.builder.may_bound

    def bounded(self, value: SSAValue, axis: int, count: SSAValue) -> SSAValue:
        """A result of which the first `count` ([1], i64) slices along an axis are valid.

        Raises:
            MeasuredError: in a function or body, which a next stage imports with a known count.
        """
        if self.builder.depth:
            extents = list(shape_of(value))
            (extents[axis],) = self.measured(count, "the number of results")
            part = self.emit(SliceOp(value, [0] * len(extents), extents))
            self.builder.mark_texts([value], [part])
            return part
        extents = [self.array(np.array([n], np.int64)) for n in shape_of(value)]
        extents[axis] = count
        self.builder.extents[value] = self.emit(ConcatOp(extents, axis=0))
        return value

    def emit(self, op: Operation) -> SSAValue:
        """Add a graph op with one result (folded at once if it is a small constant)."""
        return self.builder.emit(op)

    def scan(
        self,
        body: Callable[[NodeContext, list[SSAValue]], list[SSAValue]],
        steps: int,
        states: Sequence[SSAValue],
        scanned: Sequence[SSAValue],
        fixed: Sequence[SSAValue],
        slices: Sequence[AnyTensor],
        *,
        reverse: bool = False,
    ) -> list[SSAValue]:
        """A loop over time (see `graph.ScanOp`), whose step `body` writes.

        Args:
            body: given a context to emit ops with, and the states, slices of `scanned` and
                `fixed` as a step sees them; returns the next states and slices of results.
            slices: the types of the slices that `body` returns.
        """
        if steps == 0:
            return [*states, *(self.zeros((0, *t.get_shape()), t.element_type) for t in slices)]
        rows = [tensor(shape_of(v)[1:], tensor_type(v).element_type) for v in scanned]
        passed = [v for v in fixed if self.known(v) is None]
        types = [*(v.type for v in states), *rows, *(v.type for v in passed)]
        builder = self.builder.function(f"{self.op_type.lower()}_step", types)
        inner = NodeContext(self.node, self._schema, [], builder, self.opset, self.where)
        arguments = list(builder.block.args)
        moving = len(states) + len(scanned)
        seen = dict(zip(passed, arguments[moving:], strict=True))
        values = [seen[v] if v in seen else builder.copy_constant(v) for v in fixed]
        results = body(inner, [*arguments[:moving], *values])
        function = builder.finish([*results, *(refused for _, refused in builder.checks)])
        name = function.sym_name.data
        checks = [tensor((1,), i1)] * len(builder.checks)
        op = ScanOp(name, steps, states, scanned, passed, [*slices, *checks], reverse=reverse)
        return self.builder.append_steps(op, builder)

    def require(self, value: SSAValue, low: int, high: int, what: str) -> None:
        """Refuse what is outside of a range: now if it is known, else whenever the model runs.

        Args:
            value: integers, of any shape.
            low, high: the least and the greatest that may be.
            what: what they are, for messages: "indices".
        """
        if 0 in shape_of(value):
            return
        known = self.known(value)
        message = f"{self.op_type}: {what} should be from {low} to {high}"
        if known is None:
            refused = self.emit(OutOfBoundsOp(value, low=low, high=high))
            self.builder.checks.append((f"{message} (at {self.where})", refused))
            return
        known = known[(0,) * known.ndim] if not any(known.strides) else known
        least, most = int(known.min()), int(known.max())
        self.check(
            low <= least and most <= high,
            f"{what} from {least} to {most} should be from {low} to {high}",
        )

    def is_text(self, value: SSAValue) -> bool:
        """Whether a value holds strings, which are places in the table of the model's."""
        return value in self.builder.texts

    def text(self, value: SSAValue) -> SSAValue:
        """A value of places of strings, as such."""
        self.builder.texts.add(value)
        return value

    def get_seed(self) -> float | None:
        """The attribute `seed` of what draws random numbers; None where the node has none."""
        if not self.has("seed"):
            return None
        value = self._get("seed", object, None)
        self.check(isinstance(value, int | float), "attribute 'seed' should be a number")
        return float(value)  # pyright: ignore[reportArgumentType]

    def random_key(self) -> SSAValue:
        """The key of a run's random numbers.

        Raises:
            UnsupportedError: in a loop, all of whose steps would draw the same ones.
        """
        key = self.builder.random_key()
        if key is None:
            self.unsupported(
                f"{self.op_type} without a seed in a loop that is not written out is not supported"
            )
        return key

    def place_of(self, text: str) -> int:
        """The place of a string in the model's table."""
        return self.builder.strings.place(text)

    def host(
        self,
        function: str,
        operands: Sequence[SSAValue],
        shape: Sequence[int],
        element: Attribute | None = None,
        **settings: Any,
    ) -> SSAValue:
        """The result of a function that Python computes, see `support.host_functions`.

        Args:
            element: the type of the result's elements; None for strings.
            settings: what the function is told beside the operands.
        """
        types = [tensor(shape, i64 if element is None else element)]
        result = self.emit(HostCallOp(function, operands, types, settings))
        return self.text(result) if element is None else result

    def measured(self, value: SSAValue, what: str) -> list[int]:
        """Integers that are computed from data and decide shapes; a next stage knows them.

        Raises:
            MeasuredError: they are not known yet.
        """
        known = self.builder.value_of(value)
        if known is None:
            known = self._measured(value, what, MeasuredError)
        return [int(v) for v in known.reshape(-1)]

    def _measured(self, value: SSAValue, what: str, kind: type[MissingValuesError]) -> np.ndarray:
        """A value that an earlier stage has computed; raises an error of a kind if none has."""
        what = f"{what} of {self.op_type}"
        known = self.builder.measured_value(what, self.where)
        if known is None:
            raise self.builder.missing(value, what, self.where, kind)
        return known

    def literal(self, value: np.ndarray | Sequence[int] | float, like: SSAValue) -> SSAValue:
        """A constant with the element type of `like`."""
        dtype = numpy_dtype(tensor_type(like).element_type)
        return self.builder.constant(np.asarray(value).astype(dtype))

    def zeros(self, shape: Sequence[int], element: Attribute) -> SSAValue:
        """A constant of zeros, which costs no memory."""
        return self.builder.splat(tuple(shape), numpy_dtype(element).type(0))

    def array(self, value: np.ndarray) -> SSAValue:
        """A constant with the array's own type."""
        return self.builder.constant(value)

    def output_used(self, index: int) -> bool:
        """Whether the node names its output `index`."""
        return index < len(self.node.output) and bool(self.node.output[index])

    def single_output(self, what: str) -> None:
        """Raise UnsupportedError if any output but the first is asked for."""
        if any(self.output_used(i) for i in range(1, len(self.node.output))):
            self.unsupported(f"{what} of {self.op_type} is not supported")

    # Errors

    def malformed(self, message: str, hint: str | None = None) -> NoReturn:
        """Raise ImportModelError for this node."""
        raise ImportModelError(f"{self.op_type}: {message}", where=self.where, hint=hint)

    def unsupported(self, message: str) -> NoReturn:
        """Raise UnsupportedError for this node; it is reported with all others."""
        raise UnsupportedError(message, where=self.where)

    def check(self, condition: Any, message: str) -> None:
        """Raise ImportModelError for this node unless `condition`."""
        if not condition:
            self.malformed(message)


def tensor_type(value: SSAValue) -> TensorType[Attribute]:
    """The type of a value, which is always a ranked tensor here."""
    assert isinstance(value.type, TensorType)
    return value.type


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The static shape of a value."""
    return tensor_type(value).get_shape()


def count_of(value: SSAValue) -> int:
    """The number of elements of a value."""
    return math.prod(shape_of(value))
