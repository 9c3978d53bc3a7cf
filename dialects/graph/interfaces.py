"""The base class of graph ops: what every operator says about itself.

A pass asks these methods and never lists op names. To add an operator, write a class
with operands, properties, `infer`, `compute` and `tensor_expression` in a new file of this
package; the dialect finds it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, UnitAttr, f64, i64
from xdsl.dialects.utils import EnumAttribute
from xdsl.interfaces import HasCanonicalizationPatternsInterface, HasFolderInterface
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.ir.core import SSAValues
from xdsl.irdl import BaseAttr, IRDLOperation, traits_def
from xdsl.parser import Parser
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.attributes import UNIT, FusionKind, floats, ints
from tcopt.dialects.graph.borders import Border
from tcopt.dialects.graph.scaled import Scaled, ScaledOps
from tcopt.dialects.graph.types import AnyTensor, Array, is_half, numpy_dtype, tensor, type_of
from tcopt.dialects.te import api as te
from tcopt.support.literals import float_text, parse_number
from tcopt.support.quick_ir import init_op


class LinearWeight(NamedTuple):
    """Scaling a channel of an op's result is scaling a slice of one of its operands."""

    operand: int
    """Place of the operand."""
    axis: int
    """The operand's axis that makes the channels."""
    channel: int
    """The result's channel axis."""


Limits: TypeAlias = tuple[int, int]
"""The least and the greatest of some integers."""


class GraphOp(IRDLOperation, HasFolderInterface, HasCanonicalizationPatternsInterface, ABC):
    """An operator on static tensors.

    Text form: `%y = graph.conv %x, %w {strides = [2, 2]} : tensor<1x8x4x4xf32>`: operands,
    properties that differ from their default, result type. Operand types are those of the
    operands' definitions.
    """

    traits = traits_def(Pure())

    FUSION: ClassVar[FusionKind] = FusionKind.INJECTIVE
    ELEMENTWISE: ClassVar[bool] = False
    VIEW: ClassVar[bool] = False
    PACKS: ClassVar[bool] = False
    COUNTS_ON: ClassVar[str] = ""
    """The form (`forms.py`) that a schedule rule has to carry out; empty for any rule."""

    def __init__(
        self,
        operands: Sequence[SSAValue | Operation],
        properties: Mapping[str, Attribute | None] | None = None,
        result_type: AnyTensor | None = None,
    ):
        """Build the op; result types not given are inferred (VerifyException if impossible)."""
        kept = {} if properties is None else {k: v for k, v in properties.items() if v is not None}
        values = [SSAValue.get(operand) for operand in operands]
        init_op(self, values, () if result_type is None else (result_type,), kept)
        if result_type is None:
            types = self.infer()
            self.results = SSAValues(OpResult(t, self, i) for i, t in enumerate(types))

    # What the op says about itself.

    @abstractmethod
    def infer(self) -> Sequence[AnyTensor]:
        """Result types from operands and properties; VerifyException if they contradict.

        Ops whose result type is a choice (reshape, cast, slice, ...) check it and return it.
        """

    @abstractmethod
    def compute(self, *args: Any, **kwargs: Any) -> Array:
        """The op's value by numpy, from one array for each operand.

        16-bit floats arrive as f32; `evaluate` rounds the value to the result's type.
        """

    def compute_all(self, *args: Any, **kwargs: Any) -> Sequence[Array]:
        """All results by numpy, as `compute` gives the only one."""
        return (self.compute(*args, **kwargs),)

    @abstractmethod
    def tensor_expression(self, *args: Any, **kwargs: Any) -> te.Tensor:
        """The op's definition: the te tensor of its result from those of its operands."""

    @property
    def fusion_kind(self) -> FusionKind:
        """The op's kind in the fusion rules."""
        return self.FUSION

    @property
    def is_elementwise(self) -> bool:
        """Whether output element i depends on operand elements i only, up to broadcasting."""
        return self.ELEMENTWISE

    @property
    def is_view(self) -> bool:
        """Whether the result is the first operand's data under another shape."""
        return self.VIEW

    @property
    def packs_weights(self) -> bool:
        """Whether the result replaces a constant operand at compile time, whatever its size."""
        return self.PACKS

    @property
    def type(self) -> AnyTensor:
        """The type of the first result."""
        return type_of(self.results[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return self.type.get_shape()

    @property
    def reduced_axes(self) -> tuple[int, ...]:
        """The first operand's axes along which the op combines elements, where rows along
        them are all that it combines; empty for other ops."""
        return ()

    def with_dims_kept(self) -> Sequence[GraphOp] | None:
        """The same by ops that keep all dimensions, and one that drops some of size 1 at the end;
        None where the op drops no dimensions behind the channels."""
        return None

    def in_blocks(self, operands: Sequence[SSAValue], block: int) -> GraphOp | None:
        """The same op on data whose channels are in blocks, or None if it has no such form.

        Args:
            operands: the operands; those of the op's own rank are [N, C / block, ..., block],
                lower ranks broadcast against that.
            block: channels in a block.
        """
        return None

    def stays_plain(self, block: int) -> bool:
        """Whether the op is known to have no form in blocks, of so many channels."""
        return False

    def border(self, nonnegative: bool) -> Border | None:
        """The border around the first operand in which the op could read its padding.

        It is empty where nothing is padded, and None for ops that do not move a window over
        that operand, or whose padding is not a number that is known.

        Args:
            nonnegative: whether the operand has no element below zero.
        """
        return None

    def inside_border(self, x: SSAValue, border: Border) -> GraphOp:
        """The same op with `x` as first operand, that operand with a border around it.

        Args:
            x: the operand inside of the border.
            border: one that holds what `border` gave.
        """
        raise NotImplementedError(f"{self.name} has no border")

    @property
    def copies_to_pad(self) -> bool:
        """Whether the op copies its first operand in order to pad it."""
        return False

    @property
    def is_border(self) -> bool:
        """Whether the op only puts elements of one known number around its first operand.

        The operand's producer can write its result inside of them at once.
        """
        return False

    @property
    def selects(self) -> bool:
        """Whether each element of the result is an element of an operand, chosen by its place or
        in comparison with others: what is added to all of them is added to the result."""
        return False

    @property
    def is_joined(self) -> bool:
        """Whether the result is the operands' data, one after the other from aligned places.

        The operands' producers can write them there, and nothing is computed.
        """
        return False

    @property
    def is_opaque(self) -> bool:
        """Whether the op is a kernel of its own, written as loops (see `OpaqueOp`)."""
        return False

    @property
    def is_host_call(self) -> bool:
        """Whether Python computes the op, with what only a running program has at hand."""
        return False

    @property
    def is_part(self) -> bool:
        """Whether the op takes a part of its operand, which can be read in place."""
        return False

    @property
    def subview_offset(self) -> int | None:
        """The byte of the first operand's data from which the result's lies there, in one piece.

        Outside of groups the op is then a view of its operand's buffer, and nothing is copied.
        None where the data is scattered, or does not start where buffers may.
        """
        return None

    @property
    def stores_anywhere(self) -> bool:
        """Whether elements of the result are complete in registers, a tile at a time.

        A kernel can then store them in another order than the result's.
        """
        return False

    def is_nonnegative(self, operands: Sequence[bool]) -> bool:
        """Whether no element of the result is below zero.

        Args:
            operands: of each operand, whether none of its elements is.
        """
        return False

    def integer_limits(self, operands: Sequence[Limits]) -> Limits | None:
        """Between which integers all elements of the result are; None if that is not known.

        Args:
            operands: of each operand, between which its elements are.
        """
        return None

    def work(self) -> int:
        """Rough number of scalar operations, to compare ops with one another."""
        return math.prod(self.shape)

    def decompose(self) -> Sequence[Operation] | None:
        """Simpler ops that compute the same, the last one the result, where that helps fusion.

        None if the op is best as it is.
        """
        return None

    def on_integers(self, operands: Sequence[Scaled]) -> ScaledOps | None:
        """The same on real numbers that are integers times a scale, computed on the integers.

        None if the op has no such form, or scales do not allow it. Integers are i16 or i32, and
        have no zero point.
        """
        return None

    def on_elements(self, x: SSAValue) -> GraphOp:
        """The same op on an operand, its only one, and for a result of other element type."""
        result = tensor(self.shape, type_of(x).element_type)
        return type(self).create(operands=[x], result_types=[result], properties=self.properties)

    def linear_weight(self) -> LinearWeight | None:
        """The operand in which the result is linear, channel by channel; None without one."""
        return None

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """The existing values that equal the results, if the op changes nothing."""
        value = self.unchanged()
        return None if value is None or value.type != self.type else (value,)

    def simplify(self) -> Sequence[Operation] | None:
        """Fewer or cheaper ops that compute the same, the last one the result.

        Canonicalization puts them in the op's place; None if the op is canonical.
        """
        return None

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        """The pattern that applies `simplify`."""
        return (Simplify(),)

    def unchanged(self) -> SSAValue | None:
        """An operand that equals the result if it has the result's type; None without one."""
        return None

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        """The results by numpy, with the shapes and dtypes of the result types."""
        wide = [
            array.astype(np.float32) if is_half(type_of(operand).element_type) else array
            for array, operand in zip(arrays, self.operands, strict=True)
        ]
        with np.errstate(all="ignore"):
            computed = self.compute_all(*wide)
        values: list[Array] = []
        for value, result in zip(computed, self.results, strict=True):
            type_ = type_of(result)
            dtype = numpy_dtype(type_.element_type)
            values.append(np.asarray(value).astype(dtype, copy=False).reshape(type_.get_shape()))
        return tuple(values)

    def verify_(self) -> None:
        """Recompute `infer` and compare; operands and results must be static tensors."""
        for value in (*self.operands, *self.results):
            type = type_of(value)
            if not type.has_static_shape():
                raise VerifyException(f"{type} has a dynamic dimension")
        inferred = self.infer()
        if len(inferred) != len(self.results):
            raise VerifyException(f"expected {len(inferred)} results, got {len(self.results)}")
        for result, expected in zip(self.results, inferred, strict=True):
            if result.type != expected:
                raise VerifyException(
                    f"result has type {result.type}, but operands and attributes give {expected}"
                )

    # Text.

    def print(self, printer: Printer) -> None:
        """Print operands, attributes and result types."""
        print_operands(printer, self.operands)
        print_properties(printer, self)
        printer.print_string(" : ")
        printer.print_list(self.result_types, printer.print_attribute)

    @classmethod
    def parse(cls, parser: Parser) -> GraphOp:
        """Parse what `print` prints."""
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


class Simplify(RewritePattern):
    """Replace a graph op by what its `simplify` gives."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Rewrite one op."""
        if not isinstance(op, GraphOp):
            return
        new_ops = op.simplify()
        if new_ops is None:
            return
        for new_op in new_ops:
            new_op.location = op.location
        new_ops[-1].results[0].name_hint = op.results[0].name_hint
        rewriter.replace(op, new_ops)


def print_operands(printer: Printer, operands: Sequence[SSAValue]) -> None:
    """Print ` %a, %b`."""
    if operands:
        printer.print_string(" ")
        printer.print_list(operands, printer.print_ssa_value)


def parse_operands(parser: Parser) -> list[SSAValue]:
    """Parse `%a, %b`; each must be defined already, so that its type is known."""
    operands: list[SSAValue] = []
    unresolved = parser.parse_optional_unresolved_operand()
    while unresolved is not None:
        known = parser.ssa_values.get(unresolved.operand_name)
        if known is None or unresolved.index >= len(known):
            parser.raise_error("value is used before its definition", unresolved.span)
        operands.append(known[unresolved.index])
        if parser.parse_optional_punctuation(",") is None:
            break
        unresolved = parser.parse_unresolved_operand()
    return operands


# Plain classes: `isa` on generic ones is a thousand times slower.
_ARRAY: type[Any] = DenseArrayBase
_FLOAT: type[Any] = FloatAttr
_INTEGER: type[Any] = IntegerAttr


def _print_value(printer: Printer, value: Attribute) -> None:
    text = _short_text(value)
    if text is None:
        printer.print_attribute(value)
    else:
        printer.print_string(text)


def _short_text(value: Any) -> str | None:
    """The text of an attribute that needs no type; None if it needs one."""
    if isinstance(value, EnumAttribute):
        return str(value.data)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    if isinstance(value, _ARRAY) and value.elt_type == i64:
        return str(list(value.get_values()))
    if isinstance(value, _ARRAY) and value.elt_type == f64 and len(value):
        return "[" + ", ".join(map(float_text, value.get_values())) + "]"
    if isinstance(value, _FLOAT) and value.type == f64 and math.isfinite(value.value.data):
        return float_text(value.value.data)
    if isinstance(value, _INTEGER) and value.type == i64:
        return str(value.value.data)
    return None


def print_properties(printer: Printer, op: IRDLOperation, hidden: Sequence[str] = ()) -> None:
    """Print ` {flag, key = value}` for what differs from its default; nothing if empty."""
    definitions = op.get_irdl_definition().properties
    entries = [
        (name, value)
        for name, definition in definitions.items()
        if name not in hidden
        and (value := op.properties.get(name)) is not None
        and definition.default_value != value
    ]
    others = sorted(op.attributes.items())
    if not entries and not others:
        return
    printer.print_string(" {")
    for index, (name, value) in enumerate((*entries, *others)):
        printer.print_string(", " if index else "")
        printer.print_identifier_or_string_literal(name)
        if isinstance(value, UnitAttr):
            continue
        printer.print_string(" = ")
        # Without a definition nothing says what the elements of a short list are.
        if index < len(entries) or isinstance(value, _INTEGER | _FLOAT):
            _print_value(printer, value)
        else:
            printer.print_attribute(value)
    printer.print_string("}")


def _parse_value(parser: Parser, constraint: Any) -> Attribute:
    if parser.parse_optional_punctuation("=") is None:
        return UNIT
    if isinstance(constraint, BaseAttr):
        base: Any = constraint.attr  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if issubclass(base, EnumAttribute):
            return base(parser.parse_str_enum(base.enum_type))  # pyright: ignore
    if constraint is None or not _is_array(constraint):
        return parser.parse_attribute()
    numbers = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parse_number(parser)
    )
    if any(isinstance(number, float) for number in numbers):
        return floats(numbers)
    return ints([int(number) for number in numbers])


def _is_array(constraint: Any) -> bool:
    bases: set[Any] = constraint.get_bases() or set()
    return DenseArrayBase in bases


def parse_properties(
    parser: Parser, op: type[IRDLOperation]
) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
    """Parse what `print_properties` prints: the properties and the other attributes."""
    properties: dict[str, Attribute] = {}
    attributes: dict[str, Attribute] = {}
    definitions = op.get_irdl_definition().properties

    def entry() -> None:
        name = parser.parse_identifier_or_str_literal()
        definition = definitions.get(name)
        target = attributes if definition is None else properties
        if name in target:
            parser.raise_error(f"{name} is given twice")
        target[name] = _parse_value(parser, None if definition is None else definition.constr)

    parser.parse_optional_comma_separated_list(parser.Delimiter.BRACES, entry)
    return properties, attributes
