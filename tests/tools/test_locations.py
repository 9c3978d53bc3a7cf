"""Ops know their source locations and keep them through rewrites."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects import func, get_all_dialects
from xdsl.dialects.builtin import NameLoc, StringAttr, UnknownLoc

from tcopt.support.locations import (
    describe_location,
    nearest_location,
    set_location,
)
from tcopt.support.syntax.parsing import LocatedParser

TEXT = """func.func @f(%a: i32) -> i32 {
  %b = arith.addi %a, %a : i32
  %c = arith.muli %b, %b : i32 loc("named")
  func.return %c : i32
}"""


def parse(text: str = TEXT) -> func.FuncOp:
    ctx = Context()
    for name, factory in get_all_dialects().items():
        ctx.register_dialect(name, factory)
    (op,) = LocatedParser(ctx, text, "f.mlir").parse_module().ops
    assert isinstance(op, func.FuncOp)
    return op


def places(function: func.FuncOp) -> list[str | None]:
    return [describe_location(op.location) for op in function.walk()]


def test_parser_sets_locations_and_respects_written_ones() -> None:
    assert places(parse()) == ["f.mlir:1:1", "f.mlir:2:3", '"named"', "f.mlir:4:3"]


def test_set_and_nearest_location() -> None:
    """A location is given to ops without one; an op without one uses its parent's."""
    function = parse()
    *_, last = function.walk()
    last.location = UnknownLoc()
    assert nearest_location(last) == function.location
    set_location([function], NameLoc(StringAttr("here"), UnknownLoc()))
    assert places(function)[-1] == '"here"'
    assert places(function)[0] == "f.mlir:1:1"
