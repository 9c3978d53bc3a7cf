"""Pattern rewriting, and helpers for edits that passes make directly.

Patterns are xDSL's `RewritePattern`s; `rewrite` applies a list of them:

    class MulBySigmoid(RewritePattern):
        @op_type_rewrite_pattern
        def match_and_rewrite(self, op: graph.MulOp, rewriter: PatternRewriter) -> None:
            ...
            rewriter.replace(op, graph.SiluOp(x))

    rewrite(module, [MulBySigmoid()])

Compared to xDSL's walker, it applies a pattern only to ops of the annotated classes, revisits only
ops affected by a rewrite, preserves source locations, does not name helper values, and reports an
error if rewriting does not terminate. A pattern that needs the value of a size does not match.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from heapq import heappop, heappush
from types import MethodType, UnionType
from typing import Any

from xdsl.dialects.builtin import ModuleOp, UnknownLoc
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint

from tcopt.support.errors import InputError, PassFailedError, UndecidedSize
from tcopt.support.ir.quick_ir import (
    append_ops,
    erase_op,
    insert_ops,
    walk_inner_first,
    walk_ops,
)
from tcopt.support.locations import describe_location, nearest_location, set_location
from tcopt.support.remarks import remark

# Edits


def insert(new: Operation, before: Operation) -> SSAValue:
    """Insert an op before another with the same location; return its first result."""
    assert before.parent is not None
    _locate(new, before)
    before.parent.insert_op_before(new, before)
    return new.results[0]


def replace(op: Operation, new: Operation | Sequence[Operation]) -> None:
    """Replace an op by new ops, the last of which has the results."""
    ops = (new,) if isinstance(new, Operation) else new
    for each in ops:
        _locate(each, op)
    assert op.parent is not None
    op.parent.insert_ops_before(ops, op)
    replace_by(op, ops[-1].results)


def replace_by(op: Operation, values: Sequence[SSAValue]) -> None:
    """Replace the results of an op by existing values, and erase it."""
    for old, value in zip(op.results, values, strict=True):
        old.replace_all_uses_with(value)
    erase(op)


def erase(*ops: Operation) -> None:
    """Erase ops, starting with the last.

    Raises:
        PassFailedError: a result still has uses.
    """
    for op in reversed(ops):
        for result in op.results:
            if (use := result.first_use) is not None:
                raise PassFailedError(f"erased while '{use.operation.name}' uses it", op=op)
        erase_op(op)


def erase_unused(block: Block, *kinds: type[Operation]) -> None:
    """Erase unused ops of certain classes from a block."""
    for op in reversed(tuple(block.ops)):
        if isinstance(op, kinds) and not any(result.first_use for result in op.results):
            erase_op(op)


def move(ops: Sequence[Operation], block: Block) -> None:
    """Move ops to the end of a block."""
    for op in ops:
        op.detach()
    block.add_ops(ops)


def move_before(ops: Sequence[Operation], place: Operation) -> None:
    """Move ops before another op."""
    assert place.parent is not None
    for op in ops:
        op.detach()
    place.parent.insert_ops_before(ops, place)


def inline(op: Operation) -> None:
    """Replace an op by the contents of its single block, which has no terminator."""
    move_before(tuple(op.regions[0].block.ops), op)
    erase(op)


CHOSEN = "tune."
"""Prefix of attributes that record decisions about an op.

They are copied when the op is replaced, so that later passes find them.
"""


def take_choices(new: Operation, old: Operation) -> None:
    """Copy recorded decisions from a replaced op, unless the new op has its own."""
    for name, value in old.attributes.items():
        if name.startswith(CHOSEN):
            new.attributes.setdefault(name, value)


def _locate(new: Operation, old: Operation) -> None:
    """Set the location of an op and all nested ops that have none."""
    if new.regions:
        set_location((new,), old.location)
    elif isinstance(new.location, UnknownLoc):
        new.location = old.location


def function_bodies(module: ModuleOp) -> Iterator[Block]:
    """Yield the bodies of the functions defined in a module."""
    for op in module.ops:
        if isinstance(op, FuncOp) and op.body.blocks:
            yield op.body.block


# Patterns


def rewrite(
    root: Operation | Block,
    patterns: Sequence[RewritePattern],
    *,
    once: bool = False,
    inner_first: bool = False,
    backward: bool = False,
) -> bool:
    """Apply patterns to everything nested in an op or a block, until none matches.

    Ops are visited in program order; the first matching pattern rewrites an op. New ops, users of
    replaced results, modified ops and those that lost a use are visited again. Once the worklist is
    empty, the parents of changed ops are visited.

    Args:
        once: visit each initial op once, and no others.
        inner_first: visit an op after its nested ops instead of before.
        backward: visit ops in reverse order, so users before producers.
    Returns:
        Whether anything was rewritten.
    Raises:
        PassFailedError: rewriting does not terminate.
    """
    walk = walk_inner_first if inner_first else walk_ops
    return _Driver(patterns, once).run(root, walk, backward=backward)


@dataclass
class RewriteCounter:
    """Limits the number of rewrites, to find the one that breaks a program by bisection.

    Attributes:
        most: maximum number of rewrites.
        pattern: pattern class whose rewrites are limited; empty for all.
        done: number of rewrites so far.
        last: description of the last rewrite.
    """

    most: int
    pattern: str = ""
    done: int = 0
    last: str = "none"

    def admits(self, pattern: str) -> bool:
        """Whether a pattern may make another rewrite."""
        return self.done < self.most or self.pattern not in ("", pattern)

    def __str__(self) -> str:
        return f"rewrites: {self.done}, the last: {self.last}"

    def count(self, pattern: str, subject: str) -> None:
        """Record a rewrite."""
        if self.pattern in ("", pattern):
            self.done += 1
            self.last = f"{pattern} of {subject}"


_COUNTER: ContextVar[RewriteCounter | None] = ContextVar("rewrites", default=None)


@contextmanager
def limit_rewrites(text: str) -> Generator[RewriteCounter]:
    """Limit the number of rewrites within the context, of all patterns or of one class.

    Args:
        text: `17`, or `MulBySigmoid=17`.
    Raises:
        InputError: the text has neither form.
    """
    pattern, _, number = text.rpartition("=")
    if not number.isdecimal():
        raise InputError(
            f"'{text}' is not a limit of rewrites", hint="write 17, or PatternClass=17"
        )
    token = _COUNTER.set(counter := RewriteCounter(int(number), pattern))
    try:
        yield counter
    finally:
        _COUNTER.reset(token)


_Apply = Callable[[Operation, PatternRewriter], None]
_Classes = type[Operation] | UnionType | tuple[type[Operation], ...]
_PER_OP, _AT_LEAST = 10, 1000


class _Driver(PatternRewriter):
    """The rewriter passed to patterns, with a worklist ordered by program position."""

    def __init__(self, patterns: Sequence[RewritePattern], once: bool):
        # The insertion point is before the visited op, unless a pattern sets another.
        super().__init__(InsertPoint(Block()))
        self._patterns = patterns
        self._once = once
        self._counter = _COUNTER.get()
        self._by_kind: dict[type[Operation], tuple[tuple[str, _Apply], ...]] = {}
        self._heap: list[tuple[int, int, Operation]] = []
        self._places: dict[Operation, int] = {}
        self._waiting: set[Operation] = set()
        self._around: dict[Operation, None] = {}
        self._root: Operation | None = None
        self._pushes = 0
        self._now = 0

    @property
    def insertion_point(self) -> InsertPoint:
        """Where ops are inserted; by default before the visited op."""
        if self._point is None:
            assert self._current_operation is not None
            self._point = InsertPoint.before(self._current_operation)
        return self._point

    @insertion_point.setter
    def insertion_point(self, point: InsertPoint) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._point: InsertPoint | None = point

    def run(
        self,
        root: Operation | Block,
        walk: Callable[[Operation], Iterator[Operation]],
        *,
        backward: bool,
    ) -> bool:
        """Rewrite all nested ops, initially in the order of the walk."""
        places, applicable = self._places, self._by_kind
        self._root = root if isinstance(root, Operation) else root.parent_op()
        for top in root.ops if isinstance(root, Block) else (root,):
            for op in walk(top):
                kind = type(op)
                if applicable[kind] if kind in applicable else self._applicable(kind):
                    places[op] = len(places)
        if isinstance(root, Operation):
            places.pop(root, None)
        if backward:
            places = self._places = {op: place for place, op in enumerate(reversed(places))}
        # A sorted list is a heap.
        self._heap = [(place, 0, op) for op, place in places.items()]
        self._waiting.update(places)
        most, rewrites = _AT_LEAST + _PER_OP * len(places), 0
        while self._heap or self._visit_around():
            self._now, _, op = heappop(self._heap)
            if op not in self._waiting:
                continue
            self._waiting.remove(op)
            if op.parent is not None and (name := self._visit(op)):
                rewrites += 1
                if rewrites > most:
                    raise PassFailedError(
                        f"pattern rewriting does not terminate: {name} made rewrite {rewrites}",
                        hint="each rewrite should leave less for the patterns to find",
                    )
        return rewrites > 0

    def _visit(self, op: Operation) -> str | None:
        """Rewrite an op by the first matching pattern; return the pattern's name."""
        counter = self._counter
        subject = "" if counter is None else _describe(op)
        self._current_operation, self._point = op, None
        self._name_hint = None
        self.has_done_action = False
        for name, apply in self._by_kind[type(op)]:
            if counter is not None and not counter.admits(name):
                continue
            try:
                apply(op, self)
            except UndecidedSize as error:
                # The pattern needs the value of a size: it does not match.
                if self.has_done_action:
                    raise
                remark(name, op, error.message, missed=True)
            except Exception as error:
                error.add_note(f"in pattern {name}")
                raise
            if self.has_done_action:
                if counter is not None:
                    counter.count(name, subject)
                return name
        return None

    def _applicable(self, kind: type[Operation]) -> tuple[tuple[str, _Apply], ...]:
        """Return the patterns for ops of a class, with their names."""
        found = self._by_kind.get(kind)
        if found is None:
            found = self._by_kind[kind] = tuple(
                (type(pattern).__name__, MethodType(_matched(type(pattern))[1], pattern))
                for pattern in self._patterns
                if issubclass(kind, matched_classes(pattern))
            )
        return found

    def _push(self, op: Operation) -> None:
        if self._once or op in self._waiting or not self._applicable(type(op)):
            return
        self._pushes += 1
        self._waiting.add(op)
        heappush(self._heap, (self._places.setdefault(op, self._now), self._pushes, op))

    def _note_around(self, op: Operation) -> None:
        """Record that the contents of an op's parents have changed."""
        around, parent = self._around, op.parent_op()
        while parent is not None and parent not in around:
            around[parent] = None
            parent = parent.parent_op()

    def _visit_around(self) -> bool:
        """Add ops with changed contents to the worklist; return whether there are any."""
        around, self._around = self._around, {}
        for op in around:
            if op is not self._root and op.parent is not None:
                self._push(op)
        return bool(self._heap)

    def insert(
        self, op: Operation | Sequence[Operation], insertion_point: InsertPoint | None = None
    ) -> Any:
        """Insert detached ops; faster than the base class."""
        ops = (op,) if isinstance(op, Operation) else op
        point = self.insertion_point if insertion_point is None else insertion_point
        for each in ops:
            if each.parent is not None:
                raise PassFailedError("the inserted op is already in a block", op=each)
        if point.insert_before is None:
            append_ops(point.block, ops)
        else:
            insert_ops(ops, point.insert_before)
        self.has_done_action |= bool(ops)
        for each in ops:
            if self._name_hint is not None:
                for result in each.results:
                    result.name_hint = result.name_hint or self._name_hint
            self.handle_operation_insertion(each)
        return op

    # Callbacks of the base class

    def handle_operation_insertion(self, op: Operation) -> None:
        """Set the location of a new op, and visit it and its nested ops."""
        if self._current_operation is not None:
            _locate(op, self._current_operation)
        if not self._once:
            self._note_around(op)
            for inner in walk_ops(op):
                self._push(inner)

    def handle_operation_modification(self, op: Operation) -> None:
        """Visit an op again."""
        if not self._once:
            self._note_around(op)
            self._push(op)

    def handle_operation_removal(self, op: Operation) -> None:
        """Remove an op and its nested ops from the worklist; visit producers of their operands."""
        if not self._once:
            self._note_around(op)
        for inner in walk_ops(op):
            self._waiting.discard(inner)
            self._around.pop(inner, None)
            if not self._once:
                for operand in inner.operands:
                    if isinstance(operand.owner, Operation):
                        self._push(operand.owner)

    def erase(self, op: Operation, safe_erase: bool = True) -> None:
        """Erase an op without uses.

        Raises:
            PassFailedError: a result still has uses.
        """
        if not safe_erase:
            super().erase(op, safe_erase=False)
            return
        self.has_done_action = True
        self.handle_operation_removal(op)
        erase(op)

    def replace(
        self,
        op: Operation,
        new_ops: Operation | Sequence[Operation],
        new_results: Sequence[SSAValue | None] | None = None,
        safe_erase: bool = True,
    ) -> None:
        """Replace an op by other ops.

        The new ops take its location, the last one its recorded decisions, and the new results the
        names of the old ones.

        Args:
            new_results: replacements of the results; by default the results of the last op.
        """
        ops = (new_ops,) if isinstance(new_ops, Operation) else new_ops
        for new in ops:
            _locate(new, op)
        if ops and op.attributes:
            take_choices(ops[-1], op)
        self.insert(ops, InsertPoint.before(op))
        results = new_results if new_results is not None else ops[-1].results if ops else ()
        if len(results) != len(op.results):
            raise PassFailedError(
                f"{len(op.results)} results cannot be replaced by {len(results)} values", op=op
            )
        for old, new in zip(op.results, results, strict=True):
            self.replace_all_uses_with(old, new, safe_erase)
        self.erase(op, safe_erase)


def matched_classes(pattern: RewritePattern) -> _Classes:
    """Return the op classes that a pattern applies to.

    These are the classes annotated under `op_type_rewrite_pattern`, or those in the attribute
    `op_classes` of a pattern whose classes are only known at run time; otherwise all.
    """
    return getattr(pattern, "op_classes", None) or _matched(type(pattern))[0]


@cache
def _matched(pattern: type[RewritePattern]) -> tuple[_Classes, Any]:
    """Return the annotated op class of a pattern class, and the undecorated method."""
    method: Any = pattern.match_and_rewrite
    # The decorator's wrapper checks the op class itself.
    cells = zip(method.__code__.co_freevars, method.__closure__ or (), strict=True)
    found = {name: cell.cell_contents for name, cell in cells}
    if found.keys() == {"expected_type", "func"}:
        return found["expected_type"], found["func"]
    return Operation, method


def _describe(op: Operation) -> str:
    place = describe_location(nearest_location(op))
    return f"'{op.name}'" + (f" at {place}" if place else "")
