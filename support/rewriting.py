"""Rewrite patterns and how they are run, and the edits that passes make by hand.

Patterns are xDSL's own `RewritePattern`s; `rewrite` runs a list of them:

    class MulBySigmoid(RewritePattern):
        @op_type_rewrite_pattern
        def match_and_rewrite(self, op: graph.MulOp, rewriter: PatternRewriter) -> None:
            ...
            rewriter.replace(op, graph.SiluOp(x))

    rewrite(module, [MulBySigmoid()])

Unlike xDSL's walker it asks a pattern only about ops of the classes that its annotation names,
looks again at no more than what a rewrite touched, keeps source locations, leaves helper values
without names, and ends with an error where patterns go on for ever.
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

from tcopt.support.errors import InputError, PassFailedError
from tcopt.support.locations import describe_location, nearest_location, set_location
from tcopt.support.quick_ir import (
    append_ops,
    erase_op,
    insert_ops,
    walk_inner_first,
    walk_ops,
)

# Edits


def insert(new: Operation, before: Operation) -> SSAValue:
    """Put an op in front of another, whose location it takes; its first result."""
    assert before.parent is not None
    _locate(new, before)
    before.parent.insert_op_before(new, before)
    return new.results[0]


def replace(op: Operation, new: Operation | Sequence[Operation]) -> None:
    """Put ops, the last of which gives the results, in the place of one."""
    ops = (new,) if isinstance(new, Operation) else new
    for each in ops:
        _locate(each, op)
    assert op.parent is not None
    op.parent.insert_ops_before(ops, op)
    replace_by(op, ops[-1].results)


def replace_by(op: Operation, values: Sequence[SSAValue]) -> None:
    """Put existing values in the place of an op's results, and erase it."""
    for old, value in zip(op.results, values, strict=True):
        old.replace_all_uses_with(value)
    erase(op)


def erase(*ops: Operation) -> None:
    """Take ops out of their blocks for good, the last first.

    Raises:
        PassFailedError: something uses a result.
    """
    for op in reversed(ops):
        for result in op.results:
            if (use := result.first_use) is not None:
                raise PassFailedError(f"erased while '{use.operation.name}' uses it", op=op)
        erase_op(op)


def erase_unused(block: Block, *kinds: type[Operation]) -> None:
    """Remove the ops of a block that are of some classes, and whose results nothing uses."""
    for op in reversed(tuple(block.ops)):
        if isinstance(op, kinds) and not any(result.first_use for result in op.results):
            erase_op(op)


def move(ops: Sequence[Operation], block: Block) -> None:
    """Take ops from where they are to the end of a block."""
    for op in ops:
        op.detach()
    block.add_ops(ops)


def move_before(ops: Sequence[Operation], place: Operation) -> None:
    """Take ops from where they are to the front of another."""
    assert place.parent is not None
    for op in ops:
        op.detach()
    place.parent.insert_ops_before(ops, place)


def inline(op: Operation) -> None:
    """Put what is inside of an op's one block, which has no terminator, in the op's place."""
    move_before(tuple(op.regions[0].block.ops), op)
    erase(op)


CHOSEN = "tune."
"""How attributes begin that say what was chosen for an op: they go to what takes its place, so that
passes behind find them."""


def take_choices(new: Operation, old: Operation) -> None:
    """Give an op what was chosen for the one whose place it takes, unless it has its own."""
    for name, value in old.attributes.items():
        if name.startswith(CHOSEN):
            new.attributes.setdefault(name, value)


def _locate(new: Operation, old: Operation) -> None:
    """Give an op, and what is inside of it, the location of another unless it has one."""
    if new.regions:
        set_location((new,), old.location)
    elif isinstance(new.location, UnknownLoc):
        new.location = old.location


def function_bodies(module: ModuleOp) -> Iterator[Block]:
    """The bodies of the functions of a module that are defined in it."""
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
    """Rewrite what is inside of an op or a block, until no pattern finds anything more.

    Ops are visited in program order; of the patterns that match one, the first rewrites it. New
    ops, users of replaced results, modified ops and those that lost a use are visited again; then,
    when nothing else is left, the ops around those that changed.

    Args:
        once: visit each op that is there at the start once, and nothing else.
        inner_first: visit an op after what is inside of it, not before.
        backward: visit the last op first, so users before what they use.
    Returns:
        Whether anything was rewritten.
    Raises:
        PassFailedError: the patterns do not come to an end.
    """
    walk = walk_inner_first if inner_first else walk_ops
    return _Driver(patterns, once).run(root, walk, backward=backward)


@dataclass
class RewriteCounter:
    """Lets so many rewrites happen and no more, in order to find the one that breaks a program.

    Attributes:
        most: rewrites to let happen.
        pattern: the class of the pattern whose rewrites count, `""` for all.
        done: how many happened.
        last: what the last one was.
    """

    most: int
    pattern: str = ""
    done: int = 0
    last: str = "none"

    def admits(self, pattern: str) -> bool:
        """Whether a pattern may rewrite another op."""
        return self.done < self.most or self.pattern not in ("", pattern)

    def __str__(self) -> str:
        return f"rewrites: {self.done}, the last: {self.last}"

    def count(self, pattern: str, subject: str) -> None:
        """Note a rewrite."""
        if self.pattern in ("", pattern):
            self.done += 1
            self.last = f"{pattern} of {subject}"


_COUNTER: ContextVar[RewriteCounter | None] = ContextVar("rewrites", default=None)


@contextmanager
def limit_rewrites(text: str) -> Generator[RewriteCounter]:
    """Stop all patterns, or those of one class, after so many rewrites inside.

    Args:
        text: `17`, or `MulBySigmoid=17`.
    Raises:
        InputError: it is neither.
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
    """The rewriter that patterns get, and the ops to visit, a heap by their places."""

    def __init__(self, patterns: Sequence[RewritePattern], once: bool):
        # The place is that in front of the visited op, until a pattern sets another.
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
        """Where ops are inserted: in front of the visited one, if nothing else was said."""
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
        """Rewrite what is inside, in the order of a walk."""
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
        # In order, this is a heap.
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
                        f"patterns do not come to an end: {name} made rewrite {rewrites}",
                        hint="each rewrite should leave less for the patterns to find",
                    )
        return rewrites > 0

    def _visit(self, op: Operation) -> str | None:
        """Let the first pattern that finds something rewrite an op; the pattern's name."""
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
            except Exception as error:
                error.add_note(f"in pattern {name}")
                raise
            if self.has_done_action:
                if counter is not None:
                    counter.count(name, subject)
                return name
        return None

    def _applicable(self, kind: type[Operation]) -> tuple[tuple[str, _Apply], ...]:
        """The patterns for ops of a class, with their names."""
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
        """Note that what is inside of the ops around one has changed."""
        around, parent = self._around, op.parent_op()
        while parent is not None and parent not in around:
            around[parent] = None
            parent = parent.parent_op()

    def _visit_around(self) -> bool:
        """Visit the ops whose insides have changed; whether there are any."""
        around, self._around = self._around, {}
        for op in around:
            if op is not self._root and op.parent is not None:
                self._push(op)
        return bool(self._heap)

    def insert(
        self, op: Operation | Sequence[Operation], insertion_point: InsertPoint | None = None
    ) -> Any:
        """Insert ops, which are in no block yet, at a place; quicker than the base class."""
        ops = (op,) if isinstance(op, Operation) else op
        point = self.insertion_point if insertion_point is None else insertion_point
        for each in ops:
            if each.parent is not None:
                raise PassFailedError("inserted while it is in a block", op=each)
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

    # What the base class calls on changes

    def handle_operation_insertion(self, op: Operation) -> None:
        """Give a new op a location, and visit it and what is inside."""
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
        """Forget an op and what is inside, and visit the ops that these used."""
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
        """Erase an op that nothing uses.

        Raises:
            PassFailedError: something uses a result.
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
        """Put ops in the place of one.

        They take its location, the last one what was chosen for it, and its results' names go to
        what takes their place.

        Args:
            new_results: what does, by default the results of the last of the ops.
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
                f"{len(results)} values in the place of {len(op.results)} results", op=op
            )
        for old, new in zip(op.results, results, strict=True):
            self.replace_all_uses_with(old, new, safe_erase)
        self.erase(op, safe_erase)


def matched_classes(pattern: RewritePattern) -> _Classes:
    """The classes of ops that a pattern is asked about.

    Those that the annotation under `op_type_rewrite_pattern` names; for a pattern whose classes
    are known at run time only, those of its attribute `op_classes`; otherwise all.
    """
    return getattr(pattern, "op_classes", None) or _matched(type(pattern))[0]


@cache
def _matched(pattern: type[RewritePattern]) -> tuple[_Classes, Any]:
    """The class of ops that patterns of a class are for, and the method that takes these."""
    method: Any = pattern.match_and_rewrite
    # What the decorator makes of the method tests the class of the op itself.
    cells = zip(method.__code__.co_freevars, method.__closure__ or (), strict=True)
    found = {name: cell.cell_contents for name, cell in cells}
    if found.keys() == {"expected_type", "func"}:
        return found["expected_type"], found["func"]
    return Operation, method


def _describe(op: Operation) -> str:
    place = describe_location(nearest_location(op))
    return f"'{op.name}'" + (f" at {place}" if place else "")
