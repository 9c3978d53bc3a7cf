"""Textual form of affine accesses: `[%i * 2 + %k - 1, %j]`.

An access is an `AffineMap` over a list of index values. The text has the values in place of the
dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType
from xdsl.ir import SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)
from xdsl.parser import Parser
from xdsl.printer import Printer

from tcopt.support.arithmetic.affine import compact_map, substitute

_PRECEDENCE = {AffineBinaryOpKind.Add: 1}


def print_expr(
    printer: Printer, expr: AffineExpr, operands: Sequence[SSAValue], level: int = 0
) -> None:
    """Print an index expression with the operands' names in place of dimensions."""
    match expr:
        case AffineConstantExpr():
            printer.print_string(str(expr.value))
        case AffineDimExpr():
            printer.print_ssa_value(operands[expr.position])
        case AffineBinaryOpExpr():
            precedence = _PRECEDENCE.get(expr.kind, 2)
            if precedence < level:
                printer.print_string("(")
            print_expr(printer, expr.lhs, operands, precedence)
            rhs = expr.rhs
            if precedence == 1 and isinstance(rhs, AffineConstantExpr) and rhs.value < 0:
                printer.print_string(f" - {-rhs.value}")
            else:
                printer.print_string(f" {expr.kind.get_token()} ")
                print_expr(printer, rhs, operands, precedence + 1)
            if precedence < level:
                printer.print_string(")")
        case _:
            raise ValueError(f"cannot print index expression {expr}")


def print_access(printer: Printer, map: AffineMap, operands: Sequence[SSAValue]) -> None:
    """Print `[expr, ...]`."""
    with printer.in_square_brackets():
        printer.print_list(map.results, lambda e: print_expr(printer, e, operands))


def parse_access(parser: Parser) -> tuple[AffineMap, list[SSAValue]]:
    """Parse `[expr, ...]`; each distinct SSA value becomes one dimension."""
    map, operands = parser.parse_affine_map_of_ssa_ids()
    dims = [AffineDimExpr(i) for i in range(len(operands))]
    results = tuple(e.replace_dims_and_symbols((), dims) for e in map.results)
    return unique_operands(AffineMap(len(dims), 0, results), operands)


def parse_index_expr(parser: Parser) -> tuple[AffineMap, list[SSAValue]]:
    """Parse an index expression without brackets, as a map with one result."""
    values: list[SSAValue] = []
    expr = _parse_total(parser, values)
    return unique_operands(AffineMap(len(values), 0, (expr,)), values)


def _parse_primary(parser: Parser, values: list[SSAValue]) -> AffineExpr:
    if parser.parse_optional_punctuation("("):
        inner = _parse_total(parser, values)
        parser.parse_punctuation(")")
        return inner
    if (value := parser.parse_optional_operand(IndexType())) is not None:
        values.append(value)
        return AffineDimExpr(len(values) - 1)
    return AffineConstantExpr(parser.parse_integer(allow_boolean=False))


def _parse_term(parser: Parser, values: list[SSAValue]) -> AffineExpr:
    result = _parse_primary(parser, values)
    while (kind := _parse_operation(parser)) is not None:
        start = parser.pos
        operand = _parse_primary(parser, values)
        if not _is_affine(kind, result, operand):
            parser.raise_error(
                "index expressions allow products with constants and division by positive ones",
                start,
                parser.pos,
            )
        result = AffineExpr.binary(kind, result, operand)
    return result


def _is_affine(kind: AffineBinaryOpKind, lhs: AffineExpr, rhs: AffineExpr) -> bool:
    if kind is AffineBinaryOpKind.Mul:
        return isinstance(lhs, AffineConstantExpr) or isinstance(rhs, AffineConstantExpr)
    return isinstance(rhs, AffineConstantExpr) and rhs.value > 0


def _parse_operation(parser: Parser) -> AffineBinaryOpKind | None:
    if parser.parse_optional_punctuation("*"):
        return AffineBinaryOpKind.Mul
    for kind in (AffineBinaryOpKind.FloorDiv, AffineBinaryOpKind.Mod, AffineBinaryOpKind.CeilDiv):
        if parser.parse_optional_keyword(kind.get_token()):
            return kind
    return None


def _parse_total(parser: Parser, values: list[SSAValue]) -> AffineExpr:
    result = _parse_term(parser, values)
    while True:
        if parser.parse_optional_characters("+"):
            result = result + _parse_term(parser, values)
        elif parser.parse_optional_characters("-"):
            result = result - _parse_term(parser, values)
        else:
            return result


def unique_operands(
    map: AffineMap, operands: Sequence[SSAValue]
) -> tuple[AffineMap, list[SSAValue]]:
    """Merge dimensions with the same value and drop unused ones."""
    position: dict[SSAValue, int] = {}
    renumber: list[AffineExpr] = [
        AffineDimExpr(position.setdefault(value, len(position))) for value in operands
    ]
    results = [substitute(e, renumber) for e in map.results]
    compact, kept = compact_map(results, len(position))
    values = list(position)
    return compact, [values[i] for i in kept]
