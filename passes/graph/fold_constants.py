"""Evaluation of operators whose operands are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from tcopt.dialects.graph.constant import ConstantOp, is_uniform
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.types import Array, bytes_of, numpy_dtype, type_of
from tcopt.dialects.graph.weights import WeightStore, attach_weights, weights_of

LITERAL_ELEMENTS = 16
"""Results of up to this many elements become literals, like uniform ones of any size."""

GROWTH = 4
"""How many times larger than its operands a result may be, whatever its size."""

SPREAD_BYTES = 2**28
"""What uniform operands, each of them one stored element, may come to when they are computed
with, and by how much all results may exceed the weights that are there."""


@dataclass(frozen=True)
class FoldConstantsPass(ModulePass):
    """Evaluate operators whose operands are all constants, and put constants in their place.

    Small and uniform results become literals, others weights of the module's store. A
    result that is much larger than its operands together, and larger than `max-bytes`, is
    not evaluated: a broadcast of a constant stays a broadcast, but channels are filled up
    to whole blocks. Ops that pack weights for others are always evaluated. A tensor without
    elements is known too.
    Constants that end up unused are removed.

        %a = graph.constant @scale : tensor<8xf32>
        %b = graph.constant dense<1.000000e+00> : tensor<f32>
        %c = graph.add %a, %b : tensor<8xf32>
        %y = graph.mul %x, %c : tensor<4x8xf32>
    ->
        %c = graph.constant @scale.add : tensor<8xf32>
        %y = graph.mul %x, %c : tensor<4x8xf32>

    Options: `max-bytes`, the largest result that may exceed its operands by far.
    """

    name = "fold-constants"

    max_bytes: int = 65536

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        store = weights_of(op)
        budget = _Budget(store)
        for function in op.ops:
            if isinstance(function, func.FuncOp) and function.body.blocks:
                store = self.fold_block(op, function.body.block, store, budget)

    def fold_block(
        self, module: ModuleOp, block: Block, store: WeightStore | None, budget: _Budget
    ) -> WeightStore | None:
        """Fold a function's body; gives the store, which is made when the first is needed."""
        for op in list(block.ops):
            if not isinstance(op, GraphOp) or isinstance(op, ConstantOp):
                continue
            arrays = [known_value(operand, store) for operand in op.operands]
            known = [array for array in arrays if array is not None]
            if len(known) != len(arrays) or not self.is_worthwhile(op):
                continue
            if not op.packs_weights and not budget.allows(op):
                continue
            for value, result in zip(op.results, op.evaluate(*known), strict=True):
                if store is None and not _is_literal(result):
                    store = WeightStore()
                    attach_weights(module, store)
                constant = make_constant(result, store, _name_hint(op))
                constant.location = op.location
                constant.results[0].name_hint = value.name_hint
                block.insert_op_before(constant, op)
                value.replace_all_uses_with(constant.results[0])
            op.detach()
            op.erase()
        erase_unused_constants(block)
        return store

    def is_worthwhile(self, op: GraphOp) -> bool:
        """Whether the result packs weights, or is not much larger than what it is made from."""
        if op.packs_weights:
            return True
        size = bytes_of(op.type)
        operands = sum(_stored_bytes(operand) for operand in op.operands)
        return size <= max(GROWTH * operands, self.max_bytes)


class _Budget:
    """Bounds what all results together come to, and the work on operands that store little."""

    def __init__(self, store: WeightStore | None):
        stored = sum(array.nbytes for array in store.values()) if store else 0
        self.left = GROWTH * stored + SPREAD_BYTES

    def allows(self, op: GraphOp) -> bool:
        """Whether an op may be evaluated, which is then accounted for."""
        size = sum(bytes_of(type_of(result)) for result in op.results)
        spread = sum(bytes_of(type_of(v)) - _stored_bytes(v) for v in op.operands)
        if size > self.left or spread > SPREAD_BYTES:
            return False
        self.left -= size
        return True


def known_value(value: SSAValue, store: WeightStore | None) -> Array | None:
    """The array of a constant or of a tensor without elements; None if it is not known."""
    op = value.owner
    if isinstance(op, ConstantOp):
        literal = op.literal_value
        if literal is not None or store is None:
            return literal
        return store.get(op.weight_name or "")
    type = type_of(value)
    if 0 in type.get_shape():
        return np.zeros(type.get_shape(), numpy_dtype(type.element_type))
    return None


def make_constant(value: Array, store: WeightStore | None, hint: str) -> ConstantOp:
    """A constant op of an array: a literal, or a new weight named after `hint`."""
    if store is None or _is_literal(value):
        return ConstantOp.literal(value)
    return ConstantOp.add_weight(store, value, hint)


def erase_unused_constants(block: Block) -> None:
    """Remove the constants of a block that nothing uses."""
    for op in list(block.ops):
        if isinstance(op, ConstantOp) and not op.results[0].uses:
            op.detach()
            op.erase()


def _is_literal(value: Array) -> bool:
    return value.size <= LITERAL_ELEMENTS or is_uniform(value)


def _stored_bytes(value: SSAValue) -> int:
    """Bytes of a constant as it is stored: a uniform literal is one element."""
    type = type_of(value)
    if isinstance(value.owner, ConstantOp) and value.owner.is_splat:
        return numpy_dtype(type.element_type).itemsize
    return bytes_of(type)


def _name_hint(op: GraphOp) -> str:
    """The first weight's name and the op's."""
    for operand in op.operands:
        if isinstance(operand.owner, ConstantOp) and operand.owner.weight_name is not None:
            return f"{operand.owner.weight_name}.{op.name.removeprefix('graph.')}"
    return f"folded.{op.name.removeprefix('graph.')}"
