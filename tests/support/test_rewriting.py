"""Rewrite patterns: which ops they match, the order, and preserved properties."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)

from tcopt.support.errors import InputError, PassFailedError
from tcopt.support.ir.pure_values import insert_once
from tcopt.support.ir.rewriting import (
    erase,
    limit_rewrites,
    matched_classes,
    rewrite,
)
from tcopt.support.locations import describe_location
from tcopt.support.pipelines.running import new_context
from tcopt.support.syntax.parsing import LocatedParser

TEXT = """func.func @f(%a: i32, %b: i32) -> i32 {
  %0 = arith.addi %a, %b : i32
  %1 = arith.muli %0, %0 : i32
  %2 = arith.addi %1, %b : i32
  %3 = arith.subi %2, %a : i32
  func.return %3 : i32
}"""


def parse(text: str = TEXT) -> ModuleOp:
    return LocatedParser(new_context(), text, "f.mlir").parse_module()


def names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if op.name.startswith("arith.")]


@dataclass
class Note(RewritePattern):
    """Pattern that records the ops it is applied to."""

    seen: list[Operation] = field(default_factory=list)

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.AddiOp | arith.SubiOp, rewriter: PatternRewriter) -> None:
        self.seen.append(op)


class AnyOp(RewritePattern):
    """A plain pattern that declares no op class."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if isinstance(op, arith.MuliOp):
            rewriter.replace(op, arith.AndIOp(op.lhs, op.rhs))


class AddToOr(RewritePattern):
    """Rewrite a + b to a | b."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.AddiOp, rewriter: PatternRewriter) -> None:
        rewriter.replace(op, arith.OrIOp(op.lhs, op.rhs))


class OrToAdd(RewritePattern):
    """Rewrite a | b to a + b."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.OrIOp, rewriter: PatternRewriter) -> None:
        rewriter.replace(op, arith.AddiOp(op.lhs, op.rhs))


class DoubleByShift(RewritePattern):
    """Rewrite a * a to (a + a) << 1, which has another value, with a helper op before it."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.MuliOp, rewriter: PatternRewriter) -> None:
        one = arith.ConstantOp.from_int_and_width(1, i32)
        twice = arith.AddiOp(op.lhs, op.rhs)
        rewriter.replace(op, [one, twice, arith.ShLIOp(twice, one)])


def test_a_pattern_is_asked_about_ops_of_its_classes_in_order() -> None:
    module = parse()
    note = Note()
    assert not rewrite(module, [note])
    assert [op.name for op in note.seen] == ["arith.addi", "arith.addi", "arith.subi"]
    assert matched_classes(Note()) == arith.AddiOp | arith.SubiOp
    assert matched_classes(AnyOp()) is Operation


def test_a_pattern_can_name_its_classes_at_run_time() -> None:
    @dataclass
    class NoteSome(Note):
        op_classes: tuple[type[Operation], ...] = (arith.MuliOp,)

        def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
            self.seen.append(op)

    note = NoteSome()
    rewrite(parse(), [note])
    assert [op.name for op in note.seen] == ["arith.muli"]


def test_patterns_run_in_either_driver() -> None:
    """Patterns written for one driver give the same ops in the other."""
    ours, theirs = parse(), parse()
    assert rewrite(ours, [AnyOp(), AddToOr()])
    for pattern in (AnyOp(), AddToOr()):
        PatternRewriteWalker(pattern).rewrite_module(theirs)
    assert names(ours) == names(theirs) == ["arith.ori", "arith.andi", "arith.ori", "arith.subi"]


def test_new_ops_and_users_are_visited_again() -> None:
    """The sum that replaced the product is rewritten too, and then its user is visited again."""
    module = parse()
    note = Note()
    rewrite(module, [DoubleByShift(), AddToOr(), note])
    expected = ["ori", "constant", "ori", "shli", "ori", "subi"]
    assert names(module) == [f"arith.{name}" for name in expected]
    assert [op.name for op in note.seen] == ["arith.subi"]


class EraseUnused(RewritePattern):
    """A sum without users is removed."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.AddiOp, rewriter: PatternRewriter) -> None:
        if not op.result.uses:
            rewriter.erase(op)


class EraseEmptyLoop(RewritePattern):
    """A loop without effect is removed."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: scf.ForOp, rewriter: PatternRewriter) -> None:
        if len(op.body.block.ops) == 1:
            rewriter.erase(op)


def test_a_loop_is_visited_again_when_its_body_has_changed() -> None:
    """Both loops are removed: without the inner one, the outer one is empty."""
    module = parse("""func.func @f(%n: index, %a: i32) {
      scf.for %i = %n to %n step %n {
        scf.for %j = %n to %n step %n {
          %0 = arith.addi %a, %a : i32
        }
      }
      func.return
    }""")
    assert rewrite(module, [EraseEmptyLoop(), EraseUnused()])
    assert [op.name for op in module.walk()] == ["builtin.module", "func.func", "func.return"]


def test_once_leaves_what_patterns_insert() -> None:
    module = parse()
    rewrite(module, [DoubleByShift(), AddToOr(), OrToAdd()], once=True)
    expected = ["ori", "constant", "addi", "shli", "ori", "subi"]
    assert names(module) == [f"arith.{name}" for name in expected]


def test_locations_and_names_go_to_what_replaces() -> None:
    """New ops have the location of the replaced op; only the result keeps its name."""
    module = parse(TEXT.replace("%1", "%square"))
    rewrite(module, [DoubleByShift()])
    shift = next(op for op in module.walk() if isinstance(op, arith.ShLIOp))
    twice, constant = shift.lhs.owner, shift.rhs.owner
    assert isinstance(twice, Operation) and isinstance(constant, Operation)
    places = {describe_location(op.location) for op in (shift, twice, constant)}
    assert places == {"f.mlir:3:3"}
    assert shift.result.name_hint == "square"
    assert shift.lhs.name_hint is None


def test_bodies_and_blocks_can_be_rewritten_alone() -> None:
    module = parse(TEXT + TEXT.replace("@f", "@g"))
    first, _ = (op for op in module.ops if isinstance(op, func.FuncOp))
    rewrite(first.body.block, [AddToOr()])
    assert names(module).count("arith.ori") == names(module).count("arith.addi") == 2


def test_patterns_that_undo_each_other_are_an_error() -> None:
    with pytest.raises(
        PassFailedError, match=r"pattern rewriting does not terminate: (AddToOr|OrToAdd)"
    ):
        rewrite(parse(), [AddToOr(), OrToAdd()])


def test_erasing_what_is_used_is_an_error() -> None:
    """The error names the op, its location and its users; the op is still there."""
    module = parse()
    product = next(op for op in module.walk() if isinstance(op, arith.MuliOp))
    with pytest.raises(PassFailedError, match=r"'arith.muli'.*'arith.addi' uses it.*f.mlir:3:3"):
        erase(product)
    module.verify()

    class EraseProduct(RewritePattern):
        @op_type_rewrite_pattern
        def match_and_rewrite(self, op: arith.MuliOp, rewriter: PatternRewriter) -> None:
            rewriter.erase(op)

    with pytest.raises(PassFailedError, match=r"'arith.addi' uses it") as caught:
        rewrite(module, [EraseProduct()])
    assert caught.value.__notes__ == ["in pattern EraseProduct"]


def test_equal_ops_are_inserted_once() -> None:
    """A later user reuses the op that an earlier one inserted, but not vice versa."""

    class SubtractSquare(RewritePattern):
        @op_type_rewrite_pattern
        def match_and_rewrite(self, op: arith.AddiOp, rewriter: PatternRewriter) -> None:
            square = insert_once(rewriter, arith.MuliOp(op.rhs, op.rhs))
            rewriter.replace(op, arith.SubiOp(op.lhs, square))

    text = TEXT.replace("%3 = arith.subi %2, %a", "%3 = arith.muli %b, %b")
    module = parse(text)
    rewrite(module, [SubtractSquare()], once=True)
    assert names(module) == [f"arith.{n}" for n in ("muli", "subi", "muli", "subi", "muli")]
    module.verify()


def test_ops_can_be_visited_backward() -> None:
    """Users come before their operands, and inner ops before those around them."""
    seen: list[str] = []

    class See(RewritePattern):
        def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
            seen.append(op.name)

    module = parse()
    assert not rewrite(module, [See()], once=True, backward=True)
    assert seen == [op.name for op in module.walk()][:0:-1]


@pytest.mark.parametrize(
    ("limit", "kept", "last"),
    [
        ("0", 2, "none"),
        ("1", 1, "AddToOr of 'arith.addi' at f.mlir:2:3"),
        ("9", 0, "AddToOr of 'arith.addi' at f.mlir:4:3"),
        ("AddToOr=1", 1, "AddToOr of 'arith.addi' at f.mlir:2:3"),
        ("AnyOp=1", 0, "AnyOp of 'arith.muli' at f.mlir:3:3"),
    ],
)
def test_rewrites_can_be_limited(limit: str, kept: int, last: str) -> None:
    """The limit is exact, and rewrites of other patterns do not count."""
    module = parse()
    with limit_rewrites(limit) as counter:
        rewrite(module, [AnyOp(), AddToOr()])
    assert names(module).count("arith.addi") == kept
    assert counter.last == last
    with pytest.raises(InputError, match="not a limit of rewrites"), limit_rewrites("AddToOr"):
        pass


def test_nested_ops_of_an_erased_op_are_not_visited() -> None:
    text = """
    %c = arith.constant true
    scf.if %c {
      %0 = arith.constant 1 : i32
      %1 = arith.addi %0, %0 : i32
    }"""
    module = Parser(new_context(), text).parse_module()

    class EraseIf(RewritePattern):
        def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
            if op.name == "scf.if":
                rewriter.erase(op)

    note = Note()
    rewrite(module, [EraseIf(), note])
    assert names(module) == ["arith.constant"]
    assert not note.seen
