"""Merging of matrix products with a common LHS into one product with concatenated weights.

A walk by hand: the plan of a function is applied as a whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from tcopt.dialects.graph.contraction.matmul import MatmulOp
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import bytes_of, shape_of, type_of
from tcopt.dialects.graph.movement.shape import ReshapeOp, TransposeOp
from tcopt.dialects.graph.movement.slice import SliceOp
from tcopt.passes.graph.folding.constants import Constants
from tcopt.support.ir.rewriting import erase, function_bodies, insert, replace_by
from tcopt.support.machines.alignment import ALIGNMENT
from tcopt.support.remarks import remark


def merge_columns(block: Block, constants: Constants) -> None:
    """Merge matrix products of one operand with several weights, and the ops that follow them.

    These are elementwise ops with constant other operands (scalars or rows), then one reshape that
    splits the columns, and one transpose.
    """
    alike: dict[tuple[object, ...], list[ColumnChain]] = defaultdict(list)
    for op in block.ops:
        if isinstance(op, MatmulOp) and (key := _key(op, constants)) is not None:
            alike[key].append(chain_of(op, constants))
    groups = {group.chains[0].ops[0]: group for each in alike.values() for group in _groups(each)}
    for op in tuple(block.ops):
        if isinstance(op, MatmulOp) and op in groups:
            _merge(op, groups[op], constants)


def _merge(op: MatmulOp, group: ColumnGroup, constants: Constants) -> None:
    remark(MergeColumnsPass.name, op, f"{len(group.chains)} products of one operand are one")
    first, count = group.chains[0], len(group.chains)
    *lead, columns = op.shape
    heads = [chain.ops[0] for chain in group.chains]
    weights = _beside([each.operands[1] for each in heads], constants, op)
    merged = (*lead, count * columns)
    whole = insert(op.with_operands([op.operands[0], weights], merged), op)
    for number in range(1, group.elementwise + 1):
        user = first.ops[number]
        operands: list[SSAValue] = []
        for position, value in enumerate(user.operands):
            if value is first.ops[number - 1].results[0]:
                operands.append(whole)
            elif prod(shape_of(value)) == 1:
                assert isinstance(value.owner, ConstantOp)
                operands.append(insert(value.owner.clone(), op))
            else:
                rows = [chain.ops[number].operands[position] for chain in group.chains]
                operands.append(_beside(rows, constants, op))
        whole = insert(user.with_operands(operands, merged), op)
    moves = first.ops[group.elementwise + 1 : group.length]
    tail = next((m.shape[len(lead) :] for m in moves if isinstance(m, ReshapeOp)), (columns,))
    axes = range(len(lead) + len(tail))
    perm = next((m.perm.get_values() for m in moves if isinstance(m, TransposeOp)), axes)
    moved = [len(lead), *(a + (a >= len(lead)) for a in perm)]
    shaped = insert(ReshapeOp(whole, (*lead, count, *tail)), op)
    parts = insert(TransposeOp(shaped, moved), op)
    _, *shape = shape_of(parts)
    values: list[SSAValue] = []
    for number in range(count):
        starts = (number, *(0 for _ in shape))
        part = insert(SliceOp(parts, starts, (1, *shape)), op)
        values.append(insert(ReshapeOp(part, shape), op))
    for chain, value in zip(group.chains, values, strict=True):
        *inner, last = chain.ops[: group.length]
        replace_by(last, [value])
        erase(*inner)


def _beside(values: Sequence[SSAValue], constants: Constants, before: Operation) -> SSAValue:
    """Concatenate constants along their last axis."""
    arrays = [constants.value(value) for value in values]
    rank = len(shape_of(values[0]))
    joined = np.concatenate([a for a in arrays if a is not None], axis=rank - 1)
    return insert(constants.like(joined, values[0], "merged"), before)


@dataclass(frozen=True)
class ColumnChain:
    """Product, followed by a chain of ops that are each the only user of the previous one.

    Attributes:
        ops: the product, then elementwise ops, at most one reshape and at most one transpose.
        steps: for each op after the product, a key that is equal for mergeable ops.
    """

    ops: list[GraphOp]
    steps: list[tuple[object, ...]]


@dataclass(frozen=True)
class ColumnGroup:
    """Chains whose common prefix is merged.

    Attributes:
        chains: the chains of all products.
        length: number of ops in the common prefix, including the product.
        elementwise: number of elementwise ops in the prefix.
    """

    chains: Sequence[ColumnChain]
    length: int

    @property
    def elementwise(self) -> int:
        ops = self.chains[0].ops[1 : self.length]
        return sum(not isinstance(op, ReshapeOp | TransposeOp) for op in ops)


def _groups(chains: Sequence[ColumnChain]) -> list[ColumnGroup]:
    """Group chains: those with equal ops, and all remaining ones by their common prefix."""
    found: list[ColumnGroup] = []
    left: list[ColumnChain] = []
    for chain in chains:
        same = [each for each in chains if each.steps == chain.steps]
        if len(same) == 1:
            left.append(chain)
        elif same[0] is chain:
            found.append(ColumnGroup(same, len(chain.ops)))
    if len(left) > 1:
        length = 1
        while all(c.steps[:length] == left[0].steps[:length] for c in left) and length <= min(
            len(c.steps) for c in left
        ):
            length += 1
        found.append(ColumnGroup(left, length))
    return [group for group in found if _parts_are_aligned(group)]


def _parts_are_aligned(group: ColumnGroup) -> bool:
    """Whether the parts of the merged result start at aligned addresses."""
    return bytes_of(group.chains[0].ops[group.length - 1].type) % ALIGNMENT == 0


def chain_of(op: MatmulOp, constants: Constants) -> ColumnChain:
    """Return the longest chain of mergeable ops that starts with a product."""
    chain = ColumnChain([op], [])
    while (user := _only_user(chain.ops[-1])) is not None:
        step = _step(user, chain.ops[-1], op, constants)
        earlier = {type(each) for each in chain.ops}
        has_moved = bool(earlier & {ReshapeOp, TransposeOp})
        is_move = isinstance(user, ReshapeOp | TransposeOp)
        if step is None or (has_moved and not is_move) or TransposeOp in earlier:
            break
        if isinstance(user, ReshapeOp) and ReshapeOp in earlier:
            break
        chain.ops.append(user)
        chain.steps.append(step)
    return chain


def _only_user(op: GraphOp) -> GraphOp | None:
    users = [use.operation for use in op.results[0].uses]
    user = users[0] if len(users) == 1 else None
    if not isinstance(user, GraphOp) or user.parent is not op.parent or len(user.results) != 1:
        return None
    return user


def _step(
    user: GraphOp, op: GraphOp, product: MatmulOp, constants: Constants
) -> tuple[object, ...] | None:
    """Return a key of what a user computes from an op's result; None if it cannot be merged."""
    *lead, columns = product.shape
    if isinstance(user, ReshapeOp):
        splits = list(user.shape[: len(lead)]) == lead and prod(user.shape[len(lead) :]) == columns
        return (ReshapeOp, user.shape) if splits and columns else None
    if isinstance(user, TransposeOp):
        return TransposeOp, tuple(user.perm.get_values())
    if not user.is_elementwise or user.shape != op.shape:
        return None
    operands: list[object] = []
    for value in user.operands:
        shape = shape_of(value)
        if value is op.results[0]:
            operands.append("data")
        elif not isinstance(value.owner, ConstantOp) or constants.value(value) is None:
            return None
        elif prod(shape) == 1:
            operands.append((value.owner.weight_ref, value.owner.value, shape))
        elif shape[-1] == prod(shape) == columns and len(shape) <= len(product.shape):
            operands.append(("row", len(shape)))
        else:
            return None
    properties = frozenset((user.properties | user.attributes).items())
    return type(user), properties, user.type.element_type, *operands


def _key(op: MatmulOp, constants: Constants) -> tuple[object, ...] | None:
    """Return a key that is equal for products that can be merged; None for other products."""
    data, weights = op.operands
    owner = weights.owner
    if not isinstance(owner, ConstantOp) or owner.weight_name is None:
        return None
    if len(list(weights.uses)) != 1:
        return None
    is_float = isinstance(type_of(data).element_type, AnyFloat)
    plain = op.transpose_a is None and op.transpose_b is None and len(shape_of(weights)) == 2
    if not is_float or not plain or len(op.shape) < 2 or 0 in op.shape:
        return None
    if constants.value(weights) is None:
        return None
    return data, type_of(weights), frozenset(op.properties.items()), op.type


@dataclass(frozen=True)
class MergeColumnsPass(ModulePass):
    """Merge matrix products of one operand, such as those for queries, keys and values.

    On a GPU, a launch takes as long as a small product, and a single product of 128 x 768 by
    768 x 768 elements has too few tiles to occupy all SMs. Weights that are used only once are
    concatenated, and so are biases. The parts of the result are stored one after another, so that
    their readers need no copies. Identical ops that follow the products are merged with them;
    chains that differ are merged up to the first difference.

        %a = graph.matmul %x, %v : tensor<128x768xf32>
        %b = graph.matmul %x, %w : tensor<128x768xf32>
    ->
        %0 = graph.constant @v.merged : tensor<768x1536xf32>
        %1 = graph.matmul %x, %0 : tensor<128x1536xf32>
        %2 = graph.reshape %1 : tensor<128x2x768xf32>
        %3 = graph.transpose %2 {perm = [1, 0, 2]} : tensor<2x128x768xf32>
        %4 = graph.slice %3 {starts = [0, 0, 0]} : tensor<1x128x768xf32>
        %a = graph.reshape %4 : tensor<128x768xf32>
        ...
    """

    name = "merge-columns"
    moves_values: ClassVar[bool] = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        constants = Constants(op)
        for body in function_bodies(op):
            merge_columns(body, constants)
