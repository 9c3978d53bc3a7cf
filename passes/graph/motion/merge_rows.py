"""Merging of contractions with the same weights into one contraction of all rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.contraction.matmul import MatmulOp
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import bytes_of, numpy_dtype, shape_of, type_of
from tcopt.dialects.graph.movement.shape import ReshapeOp
from tcopt.dialects.graph.movement.slice import ConcatOp, SliceOp
from tcopt.dialects.size import are_known_at, symbols_used_by
from tcopt.support.arithmetic.sizes import is_fixed
from tcopt.support.ir.rewriting import function_bodies, move_before, rewrite
from tcopt.support.machines.alignment import ALIGNMENT
from tcopt.support.registries.rule_table import OpFunction
from tcopt.support.remarks import remark

FEW_ROWS = 16
"""Maximum number of rows of a contraction that is bound by loading its weights."""

LEAST_BYTES = 65536
"""Minimum bytes of weights for which loading them again takes longer than copying some rows."""


MOST_REFUSED = 16
"""Number of contractions that depend on the first one after which the search stops."""


Product = Callable[[SSAValue], ContractionOp]
"""Returns the product of a matrix of rows and a contraction's weights."""

product_of_rows: OpFunction[[], Product | None] = OpFunction(__name__, None)
"""The product of other rows and the same weights for an op that multiplies each row of data, its
last axis, independently; None for other ops."""


@product_of_rows.rule_for(MatmulOp)
def _matmul(op: MatmulOp) -> Product | None:
    if not op.is_by_one_matrix:
        return None
    by_columns = op.transpose_b is not None
    return partial(MatmulOp, rhs=op.rhs, transpose_b=by_columns, result_element=op.result_element)


class MergeRows(RewritePattern):
    """Merge contractions with the same weights into one contraction of all rows.

        %a = graph.matmul %x, %w : tensor<1x512xf32>
        %b = graph.matmul %z, %w : tensor<1x512xf32>
    ->
        %0 = graph.concat %x, %z {axis = 0} : tensor<2x256xf32>
        %1 = graph.matmul %0, %w : tensor<2x512xf32>
        %a = graph.slice %1 {starts = [0, 0]} : tensor<1x512xf32>
        %b = graph.slice %1 {starts = [1, 0]} : tensor<1x512xf32>

    The producers of the later operands are moved before the first contraction, so none of the
    contractions may depend on another. Identical users of all results, such as adding a bias, are
    applied to all rows at once.
    """

    def __init__(self, block: Block):
        self._alike: dict[tuple[object, ...], list[ContractionOp]] = defaultdict(list)
        self._places = {op: place for place, op in enumerate(block.ops)}
        for op in block.ops:
            if isinstance(op, ContractionOp) and (key := _key(op)) is not None:
                self._alike[key].append(op)

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ContractionOp, rewriter: PatternRewriter) -> None:
        others = self._alike.get(_key(op) or (), [])
        if op not in others:
            return
        group, dependent, needed = [op], {op}, set[Operation]()
        for other in others[others.index(op) + 1 :]:
            more = self._computed_after(other, op, dependent)
            if more is not None:
                group.append(other)
                needed |= more
            elif len(dependent) - len(group) > MOST_REFUSED:
                break
            dependent.add(other)
        for member in group:
            others.remove(member)
        if len(group) == 1:
            return
        remark(MergeRowsPass.name, op, f"{len(group)} products with the same weights are merged")
        move_before(sorted(needed, key=self._places.__getitem__), op)
        self._merge(group, rewriter)

    def _computed_after(
        self, op: ContractionOp, first: Operation, dependent: Collection[Operation]
    ) -> set[Operation] | None:
        """Return the producers of an op's data that come after the first op; None if they must not
        be moved, as some of them are in the group, depend on it, or have a size that is defined
        later."""
        found: set[Operation] = set()
        pending = [op.operands[0].owner]
        while pending:
            owner = pending.pop()
            if owner in dependent:
                return None
            # Arguments, and ops created meanwhile, are before the first op.
            if not isinstance(owner, Operation) or owner in found:
                continue
            if self._places.get(owner, -1) < self._places[first]:
                continue
            if owner.regions or not are_known_at(symbols_used_by(owner), first):
                return None
            found.add(owner)
            pending += (operand.owner for operand in owner.operands)
        return found

    def _merge(self, group: Sequence[ContractionOp], rewriter: PatternRewriter) -> None:
        shapes = [shape_of(op.operands[0]) for op in group]
        rows = [
            _in_shape(op.operands[0], (prod(outer), depth), rewriter)
            for op, (*outer, depth) in zip(group, shapes, strict=True)
        ]
        joined = rewriter.insert(ConcatOp(rows, axis=0))
        multiply = product_of_rows(group[0])
        assert multiply is not None
        whole = rewriter.insert(multiply(joined.result)).results[0]
        ends: list[list[GraphOp]] = [[op] for op in group]
        while (users := _alike_users([end[-1] for end in ends])) is not None:
            whole = _on_rows(users[0], ends[0][-1], whole, rewriter)
            for end, user in zip(ends, users, strict=True):
                end.append(user)
        columns = shape_of(whole)[-1]
        start = 0
        for (*inner, last), (*outer, _) in zip(ends, shapes, strict=True):
            rewriter.insertion_point = InsertPoint.before(last)
            part = rewriter.insert(SliceOp(whole, (start, 0), (prod(outer), columns)))
            rewriter.replace(last, (), [_in_shape(part.results[0], last.shape, rewriter)])
            for op in reversed(inner):
                rewriter.erase(op)
            start += prod(outer)


def _alike_users(ops: Sequence[GraphOp]) -> list[GraphOp] | None:
    """Return the single user of each op, if all apply the same constants to each row."""
    users: list[GraphOp] = []
    for op in ops:
        (use, *more) = op.results[0].uses or (None,)
        user = None if use is None else use.operation
        if more or not isinstance(user, GraphOp) or not _is_for_rows(user, op):
            return None
        users.append(user)
    first = _constants_of(users[0], ops[0])
    same = (_constants_of(user, op) == first for user, op in zip(users, ops, strict=True))
    return users if all(same) else None


def _is_for_rows(user: GraphOp, op: GraphOp) -> bool:
    if not user.is_elementwise or len(user.results) != 1 or user.shape != op.shape:
        return False
    others = [value for value in user.operands if value is not op.results[0]]
    return len(others) == len(user.operands) - 1 and all(
        isinstance(value.owner, ConstantOp) and prod(shape_of(value)[:-1]) == 1 for value in others
    )


def _constants_of(user: GraphOp, op: GraphOp) -> tuple[object, ...]:
    """Return a key that is equal for users that apply the same op with the same constants."""
    operands: list[object] = []
    for value in user.operands:
        owner = None if value is op.results[0] else value.owner
        known = isinstance(owner, ConstantOp)
        operands.append((owner.weight_ref, owner.value) if known else None)
    properties = frozenset((user.properties | user.attributes).items())
    return type(user), properties, type_of(user.results[0]).element_type, *operands


def _on_rows(user: GraphOp, op: GraphOp, rows: SSAValue, rewriter: PatternRewriter) -> SSAValue:
    """Apply a user of an op's result to other rows, at the insertion point."""
    operands: list[SSAValue] = []
    for value in user.operands:
        if value is op.results[0]:
            operands.append(rows)
            continue
        assert isinstance(value.owner, Operation)
        constant = rewriter.insert(value.owner.clone()).results[0]
        shape = shape_of(value)[-1:]
        operands.append(_in_shape(constant, shape, rewriter))
    return rewriter.insert(user.with_operands(operands, shape_of(rows))).results[0]


def _in_shape(value: SSAValue, shape: Sequence[int], rewriter: PatternRewriter) -> SSAValue:
    same = shape_of(value) == tuple(shape)
    return value if same else rewriter.insert(ReshapeOp(value, shape)).results[0]


def _key(op: ContractionOp) -> tuple[object, ...] | None:
    """Return a key that is equal for small contractions that may be merged; None for others."""
    weights = op.weights.owner
    if not isinstance(weights, ConstantOp) or weights.weight_name is None:
        return None
    if bytes_of(type_of(op.weights)) < LEAST_BYTES or product_of_rows(op) is None:
        return None
    *outer, depth = shape_of(op.operands[0])
    result = type_of(op.results[0])
    row = result.get_shape()[-1] * numpy_dtype(result.element_type).itemsize
    # Parts of the merged result are views, at offsets that are numbers.
    if not is_fixed(outer) or not 0 < prod(outer) <= FEW_ROWS or row % ALIGNMENT:
        return None
    properties: frozenset[tuple[str, Attribute]] = frozenset(op.properties.items())
    return type(op), weights.weight_name, properties, depth, type_of(op.operands[0]).element_type


@dataclass(frozen=True)
class MergeRowsPass(ModulePass):
    """Merge small contractions with the same weights into one contraction of all of their rows.

    An unrolled recurrence multiplies each step's input by the same matrix, and a shared layer each
    of its inputs. A product of one row takes as long as loading its weights. Rows that do not
    depend on each other's products are therefore multiplied together; weights and bias are then
    loaded once. Only contractions of up to 16 rows with weights of 64 KB or more are merged, and
    only if their results can be views of the merged result.

        %a = graph.matmul %x, %w : tensor<1x512xf32>
        %b = graph.matmul %z, %w : tensor<1x512xf32>
    ->
        %0 = graph.concat %x, %z {axis = 0} : tensor<2x256xf32>
        %1 = graph.matmul %0, %w : tensor<2x512xf32>
        %a = graph.slice %1 {starts = [0, 0]} : tensor<1x512xf32>
        %b = graph.slice %1 {starts = [1, 0]} : tensor<1x512xf32>
    """

    name = "merge-rows"
    moves_values: ClassVar[bool] = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for body in function_bodies(op):
            rewrite(body, [MergeRows(body)], once=True)
