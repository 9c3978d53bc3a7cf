"""Conditions `([expr] in extent, ...)` of guards and masks."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.parser import Parser
from xdsl.printer import Printer

from tcopt.support.arithmetic.affine import substitute
from tcopt.support.syntax.access_syntax import parse_access, print_expr, unique_operands


def merge_maps(
    maps: Sequence[tuple[AffineMap, Sequence[SSAValue]]],
) -> tuple[AffineMap, list[SSAValue]]:
    """Return one map with the results of all maps, over the union of their operands."""
    operands: list[SSAValue] = []
    results: list[AffineExpr] = []
    for map, values in maps:
        dims: list[AffineExpr] = [
            AffineExpr.dimension(len(operands) + i) for i in range(len(values))
        ]
        results += [substitute(e, dims) for e in map.results]
        operands += values
    return unique_operands(AffineMap(len(operands), 0, tuple(results)), operands)


def parse_conditions(
    parser: Parser, *, with_steps: bool
) -> tuple[AffineMap, list[SSAValue], list[int], list[int]]:
    """Parse `([expr] in extent step s, ...)`."""
    maps: list[tuple[AffineMap, list[SSAValue]]] = []
    extents: list[int] = []
    steps: list[int] = []

    def condition() -> None:
        maps.append(parse_access(parser))
        parser.parse_keyword("in")
        extents.append(parser.parse_integer(allow_boolean=False))
        if with_steps:
            parser.parse_keyword("step")
            steps.append(parser.parse_integer(allow_boolean=False))

    parser.parse_comma_separated_list(parser.Delimiter.PAREN, condition)
    map, operands = merge_maps(maps)
    return map, operands, extents, steps


def print_conditions(
    printer: Printer,
    map: AffineMap,
    operands: Sequence[SSAValue],
    extents: Sequence[int],
    steps: Sequence[int] | None = None,
) -> None:
    """Print the syntax that `parse_conditions` parses."""
    printer.print_string(" ")

    def condition(position: int) -> None:
        with printer.in_square_brackets():
            print_expr(printer, map.results[position], operands)
        printer.print_string(f" in {extents[position]}")
        if steps is not None:
            printer.print_string(f" step {steps[position]}")

    with printer.in_parens():
        printer.print_list(range(len(map.results)), condition)
