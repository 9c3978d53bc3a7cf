"""The structural diff between two states of a module."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects import get_all_dialects

from tcopt.support.syntax.parsing import LocatedParser
from tcopt.tools.passes.ir_diff import diff, snapshot


def difference(old: str, new: str) -> str:
    """Return the diff of two function bodies, parsed from lines of the same file."""
    snapshots = []
    for body in (old, new):
        ctx = Context()
        for name, factory in get_all_dialects().items():
            ctx.register_dialect(name, factory)
        text = f"func.func @f(%a: f32) {{\n{body}\nfunc.return\n}}"
        snapshots.append(snapshot(LocatedParser(ctx, text, "f.mlir").parse_module()))
    return diff(*snapshots)


def test_renumbering_is_no_change() -> None:
    """Values are identified by their definitions, so numbering may change."""
    old = '%0 = "test.op"() : () -> f32\n"test.use"(%0) : (f32) -> ()'.replace("use", "op")
    new = old.replace("%0", "%7")
    assert difference(old, new) == "  no change"


def test_added_and_removed_ops_carry_their_place() -> None:
    assert difference('"test.op"(%a) : (f32) -> ()', '"test.pureop"(%a) : (f32) -> ()') == (
        "  @f: 3 -> 3 ops\n  -   test.op(%a)  at f.mlir:2:1\n  +   test.pureop(%a)  at f.mlir:2:1"
    )


def test_an_op_with_other_attributes_is_changed() -> None:
    old = '"test.op"(%a) {n = 1 : i32} : (f32) -> ()'
    assert difference(old, old.replace("1", "2")) == (
        "  @f: 3 -> 3 ops\n"
        "  ~ test.op(%a) {n = 1 : i32}  at f.mlir:2:1\n"
        "    => test.op(%a) {n = 2 : i32}"
    )


def test_moved_ops_are_counted() -> None:
    one, two = '%x = "test.op"() : () -> f32', '%y = "test.pureop"() : () -> f32'
    text = difference(f"{one}\n{two}", f"{two}\n{one}")
    assert text == "  @f: 4 -> 4 ops\n  > 1 test.pureop moved"


def test_many_ops_are_summarised_by_kind() -> None:
    """One line for each kind of change, with the first locations."""
    many = "\n".join('"test.op"(%a) : (f32) -> ()' for _ in range(40))
    assert difference(many, "") == (
        "  @f: 42 -> 2 ops\n  - 40 x test.op  at f.mlir:2:1, f.mlir:3:1 and 38 more"
    )


def test_functions_come_and_go() -> None:
    ctx = Context()
    for name, factory in get_all_dialects().items():
        ctx.register_dialect(name, factory)
    f = snapshot(LocatedParser(ctx, "func.func @f() {\nfunc.return\n}").parse_module())
    g = snapshot(LocatedParser(ctx, "func.func @g() {\nfunc.return\n}").parse_module())
    assert diff(f, g) == ("- @f: removed (2 ops)\n+ @g: added (1 func.func, 1 func.return)")
