"""Parsers of IR text: xDSL's, extended to everything that its printer prints.

Parsing any text results in a module or in an error with a readable message: `ParseError`, or
`VerificationError` if an op or attribute is invalid.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NoReturn, TypeVar, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    IntAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Operation, SSAValue, TypeAttribute
from xdsl.ir.affine import AffineMap, AffineSet
from xdsl.parser import AttrParser, Parser
from xdsl.parser.generic_parser import ParserState
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRTokenKind

from tcopt.support.errors import VerificationError
from tcopt.support.locations import describe_location, is_known
from tcopt.support.syntax.lexer import BoundedLexer

_MOST_NESTED = 60
"""Maximum nesting of ops. Loop nests have a few dozen levels; Python's stack allows a few more."""

_MOST_BITS = 64
"""Maximum width of an integer type."""

_MOST_ELEMENTS = 1 << 26
"""Maximum number of elements of a literal. A splat makes a short text expand to this many."""

NORMALIZE = "normalize_parsed"
"""Method of ops with several equivalent forms that converts a parsed op to the canonical one."""

_UNREADABLE = (
    ArithmeticError,
    AssertionError,
    LookupError,
    NotImplementedError,
    ValueError,
    struct.error,
)
"""Exceptions that xDSL raises for numbers and types that it cannot represent."""

_NOT_UNIFORM = (MLIRTokenKind.STRING_LIT, MLIRTokenKind.GREATER, MLIRTokenKind.L_SQUARE)
"""First tokens of a dense literal that is not a splat."""

_DEFINITION = re.compile(r"^([#!][\w$.-]+)\s*=(?!=)", re.MULTILINE)
"""Definition of an attribute or type alias on a line of its own."""

_MISSING = re.compile(r"expected '\W+'|'\W+' expected", re.IGNORECASE)
"""xDSL's messages about missing punctuation."""

_T = TypeVar("_T")


class _Element(AttrParser._TensorLiteralElement):  # pyright: ignore[reportPrivateUsage]
    """A number of a dense literal; hexadecimal floats are bit patterns, as in printed text."""

    def to_type(self, parser: AttrParser, type: Any) -> Any:
        if isinstance(type, AnyFloat) and self.span.text[:2] == "0x":
            assert isinstance(self.value, int)
            return _float_of_bits(self.value, type)
        return super().to_type(parser, type)


class TextParser(Parser):
    """Parser of everything that the printer prints."""

    _TensorLiteralElement = _Element

    def __init__(self, ctx: Context, text: str, name: str = "<unknown>"):
        super().__init__(ctx, "", name)
        self._parser_state = ParserState(BoundedLexer(Input(text, name)))
        self._array_element: AnyFloat | None = None
        self._later_aliases: set[str] = set()
        self._definitions: dict[str, int] | None = None
        self._last_end = 0

    def _consume_token(self, expected_kind: MLIRTokenKind | None = None) -> Any:
        token = super()._consume_token(expected_kind)
        self._last_end = token.span.end
        return token

    def raise_error(self, msg: str, at_position: Any = None, end_position: Any = None) -> NoReturn:
        """Raise a `ParseError`; missing punctuation is reported on the line that lacks it."""
        current = self._current_token.span
        if at_position in (None, current) and end_position is None and _MISSING.match(msg):
            between = self.lexer.input.content[self._last_end : current.start]
            if "\n" in between:
                at_position = self._last_end
        fail: Any = super().raise_error
        fail(msg, at_position, end_position)
        raise AssertionError("raise_error returned")

    def _parse_extended_type_or_attribute(self, attr_or_dialect_name: str, is_type: bool) -> Any:
        name = ("!" if is_type else "#") + attr_or_dialect_name
        if "." not in name and name not in self.attribute_aliases:
            self._define_alias(name)
        parse: Any = super()._parse_extended_type_or_attribute
        return parse(attr_or_dialect_name, is_type)

    def _define_alias(self, name: str) -> None:
        """Parse the definition of an alias that is used before it is defined."""
        if self._definitions is None:
            found = _DEFINITION.finditer(self.lexer.input.content)
            self._definitions = {match[1]: match.end() for match in found}
        if name not in self._definitions or name in self._later_aliases:
            return
        self._later_aliases.add(name)
        start = self._current_token.span.start
        self._resume_from(self._definitions[name])
        self.attribute_aliases[name] = self.parse_attribute()
        self._resume_from(start)

    def _parse_alias_def(self) -> None:
        name = self._current_token.text
        if name in self._later_aliases:
            self._later_aliases.remove(name)
            self.attribute_aliases.pop(name, None)
        super()._parse_alias_def()

    def _parse_generic_operation(self, op_type: type[Operation]) -> Operation:
        op = super()._parse_generic_operation(op_type)
        if (normalize := getattr(op, NORMALIZE, None)) is not None:
            normalize()
        return op

    def parse_affine_map(self) -> AffineMap:
        return self._affine(super().parse_affine_map)

    def parse_affine_set(self) -> AffineSet:
        return self._affine(super().parse_affine_set)

    def parse_affine_map_of_ssa_ids(self) -> tuple[AffineMap, Sequence[SSAValue[Any]]]:
        return self._affine(super().parse_affine_map_of_ssa_ids)

    def _affine(self, parse: Callable[[], _T]) -> _T:
        """Report non-affine products as errors; xDSL raises other exceptions when it folds them."""
        start = self.pos
        try:
            return parse()
        except (NotImplementedError, ZeroDivisionError):
            self.raise_error(
                "index expressions allow products with constants and division by positive ones",
                start,
                self.pos,
            )

    def _parse_optional_integer_or_float_type(self) -> TypeAttribute | None:
        start = self.pos
        type_: Any = super()._parse_optional_integer_or_float_type()
        if isinstance(type_, IntegerType) and type_.bitwidth > _MOST_BITS:
            self.raise_error(f"integer types have at most {_MOST_BITS} bits", start, self.pos)
        return cast(TypeAttribute | None, type_)

    def parse_optional_float(self, *, allow_negative: bool = True) -> float | None:
        # The printer writes array elements as bit patterns if they are not finite, or are long.
        if self._array_element is not None and self._current_token.text[:2] == "0x":
            return _float_of_bits(self.parse_integer(), self._array_element)
        return super().parse_optional_float(allow_negative=allow_negative)

    def _parse_builtin_densearray_attr(self) -> DenseArrayBase | None:
        # The type precedes the numbers, but is not passed to the function that reads them.
        name = self.lexer.input.content[self._current_token.span.end :].partition(":")[0].strip()
        floats = cast(dict[str, AnyFloat], self._builtin_float_types)  # pyright: ignore
        self._array_element = floats.get(name)
        attribute = super()._parse_builtin_densearray_attr()
        self._array_element = None
        return attribute

    def parse_dense_int_or_fp_elements_attr(self, type: Any) -> DenseIntOrFPElementsAttr[Any]:
        # A splat is not expanded to a list of equal elements.
        start = self._current_token.span.start
        self.parse_punctuation("<", " in dense attribute")
        if self._current_token.kind in _NOT_UNIFORM:
            self._resume_from(start)
            return super().parse_dense_int_or_fp_elements_attr(type)
        element = self._parse_tensor_literal_element()
        self.parse_punctuation(">", " in dense attribute")
        if type is None:
            self.parse_punctuation(":", " in dense attribute")
            type = self._parse_dense_literal_type()
        value: Any = element.to_type(self, type.element_type)
        return DenseIntOrFPElementsAttr.from_list(type, [value])

    def _parse_dense_literal_type(self) -> Any:
        start = self.pos
        type_ = super()._parse_dense_literal_type()
        if (count := prod(type_.get_shape())) > _MOST_ELEMENTS:
            self.raise_error(f"the literal has too many elements ({count})", start, self.pos)
        return type_


class LocatedParser(TextParser):
    """Parser that sets the location of ops without `loc(...)` to their file, line and column."""

    def __init__(self, ctx: Context, text: str, name: str = "<unknown>"):
        super().__init__(ctx, text, name)
        self._file = StringAttr(name)
        self._line_starts = [0, *(i + 1 for i, char in enumerate(text) if char == "\n")]
        self._depth = 0

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        try:
            return super().parse_module(allow_implicit_module)
        except RecursionError:
            raise ParseError(self._current_token.span, "the text is nested too deeply") from None
        except VerifyException as error:
            raise self._invalid(error, self.pos) from error
        except _UNREADABLE as error:
            self.raise_error(str(error) or "this cannot be read")

    def parse_operation(self) -> Operation:
        start = self._current_token.span.start
        self._depth += 1
        if self._depth > _MOST_NESTED:
            self.raise_error(f"ops are nested in more than {_MOST_NESTED} levels")
        try:
            op = super().parse_operation()
        except VerifyException as error:
            raise self._invalid(error, start) from error
        except _UNREADABLE as error:
            self.raise_error(str(error) or "this cannot be read", start, self.pos)
        self._depth -= 1
        if not is_known(op.location):
            op.location = self._location_at(start)
        return op

    def _invalid(self, error: VerifyException, position: int) -> VerificationError:
        place = describe_location(self._location_at(position))
        text = " ".join(line.strip() for line in str(error).splitlines() if line.strip())
        return VerificationError(text, where=place)

    def _location_at(self, position: int) -> FileLineColLoc:
        line = bisect_right(self._line_starts, position)
        column = position - self._line_starts[line - 1] + 1
        return FileLineColLoc(self._file, IntAttr(line), IntAttr(column))


def _float_of_bits(bits: int, type: AnyFloat) -> float:
    raw = bits.to_bytes(type.compile_time_size, "little")
    return next(iter(type.iter_unpack(raw)))
