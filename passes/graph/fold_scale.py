"""Folding of constant scales and shifts into weights and biases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from tcopt.dialects.graph.binary import AddOp, DivOp, MulOp, SubOp
from tcopt.dialects.graph.constant import ConstantOp
from tcopt.dialects.graph.interfaces import GraphOp, LinearWeight
from tcopt.dialects.graph.types import Array, element_type, is_float
from tcopt.dialects.graph.weights import WeightStore, weights_of
from tcopt.passes.graph.fold_constants import erase_unused_constants, known_value, make_constant


@dataclass(frozen=True)
class FoldScalePass(ModulePass):
    """Fold constant scales by channel into the weights of the op before, and join shifts.

    What remains of a normalization after a convolution is one add, its bias. Works for every
    op that names a `linear_weight`, on floats; sums are reassociated.

        %c = graph.conv %x, %w : tensor<1x8x4x4xf32>
        %b = graph.add %c, %bias : tensor<1x8x4x4xf32>
        %s = graph.mul %b, %scale : tensor<1x8x4x4xf32>
        %y = graph.add %s, %shift : tensor<1x8x4x4xf32>
    ->
        %w1 = graph.constant @w.scaled : ...                // w * scale
        %shift1 = graph.constant @shift.joined : ...        // bias * scale + shift
        %c = graph.conv %x, %w1 : tensor<1x8x4x4xf32>
        %y = graph.add %c, %shift1 : tensor<1x8x4x4xf32>
    """

    name = "fold-scale"
    moves_values: ClassVar[bool] = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        store = weights_of(op)
        for function in op.ops:
            if isinstance(function, func.FuncOp) and function.body.blocks:
                _Folding(function.body.block, store).run()


class _Folding:
    """The rewriting of one block, in order, so that chains fold step by step."""

    def __init__(self, block: Block, store: WeightStore | None):
        self.block = block
        self.store = store

    def run(self) -> None:
        """Fold what each op and the one before it allow."""
        for op in list(self.block.ops):
            if op.parent is None or len(op.results) != 1:
                continue
            if isinstance(op, SubOp | DivOp):
                op = self.normalize(op) or op
            if isinstance(op, MulOp):
                self.fold_scale(op)
            elif isinstance(op, AddOp):
                self.join_shift(op)
        erase_unused_constants(self.block)

    def known(self, value: SSAValue) -> Array | None:
        """The array of a float constant."""
        if not isinstance(value.owner, ConstantOp) or not is_float(element_type(value)):
            return None
        return known_value(value, self.store)

    def normalize(self, op: SubOp | DivOp) -> Operation | None:
        """Subtraction of a constant as addition, division as multiplication."""
        value = self.known(op.rhs)
        if value is None or self.known(op.lhs) is not None:
            return None
        new: SubOp | DivOp | AddOp | MulOp
        if isinstance(op, SubOp):
            new = AddOp(op.lhs, self.constant(-value, op, op.rhs, "negated"))
        elif (value != 0).all():
            inverse = (1 / value).astype(value.dtype)
            new = MulOp(op.lhs, self.constant(inverse, op, op.rhs, "inverse"))
        else:
            return None
        self.replace(op, new)
        return new

    def split(self, op: AddOp | MulOp) -> tuple[SSAValue, SSAValue, Array] | None:
        """The variable operand, the constant operand and its value."""
        for variable, constant in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            value = self.known(constant)
            if value is not None and variable.type == op.type and self.known(variable) is None:
                return variable, constant, value
        return None

    def join_shift(self, op: AddOp) -> AddOp:
        """(x + a) + b as x + (a + b)."""
        outer = self.split(op)
        if outer is None or not isinstance(inner := outer[0].owner, AddOp):
            return op
        parts = self.split(inner)
        if parts is None or not inner.result.has_one_use():
            return op
        variable, shift, value = parts
        total = self.constant(value + outer[2], op, shift, "joined")
        new = AddOp(variable, total)
        self.replace(op, new)
        self.erase(inner)
        return new

    def fold_scale(self, op: MulOp) -> None:
        """linear(x, w) * s as linear(x, w * s); (y + a) * s as y * s + a * s before that."""
        parts = self.split(op)
        if parts is None or not parts[0].has_one_use():
            return
        variable, _, scale = parts
        inner = variable.owner
        if isinstance(inner, AddOp):
            shifted = self.split(inner)
            if shifted is None or not shifted[0].has_one_use():
                return
            linear, shift, value = shifted
            scaled = self.scaled(linear, scale, op)
            if scaled is not None:
                self.replace(op, AddOp(scaled, self.constant(value * scale, op, shift, "scaled")))
                self.erase(inner)
                self.erase(linear.owner)
            return
        scaled = self.scaled(variable, scale, op)
        if scaled is not None:
            self.replace(op, scaled)
            self.erase(inner)

    def scaled(self, value: SSAValue, scale: Array, before: MulOp) -> GraphOp | None:
        """The op of `value` with its weight scaled, inserted before an op; None if impossible."""
        op = value.owner
        linear = op.linear_weight() if isinstance(op, GraphOp) else None
        if linear is None or not isinstance(op, GraphOp):
            return None
        weight = self.known(op.operands[linear.operand])
        factors = _by_channel(scale, op, linear)
        if weight is None or factors is None:
            return None
        shape = [1] * weight.ndim
        shape[linear.axis] = -1
        product = (weight * factors.reshape(shape)).astype(weight.dtype, copy=False)
        old = op.operands[linear.operand]
        new = op.clone()
        new.operands[linear.operand] = self.constant(product, before, old, "scaled")
        self.block.insert_op_before(new, before)
        return new

    def constant(self, value: Array, before: Operation, source: SSAValue, what: str) -> SSAValue:
        """A constant before an op, named after another one."""
        name = source.owner.weight_name if isinstance(source.owner, ConstantOp) else None
        name = name or source.name_hint
        array = np.asarray(value).astype(_dtype(self, source), copy=False)
        op = make_constant(array, self.store, f"{name or 'folded'}.{what}")
        op.location = before.location
        self.block.insert_op_before(op, before)
        return op.results[0]

    def replace(self, op: Operation, new: Operation) -> None:
        """Put an op in another's place, unless it is in the block already."""
        if new.parent is None:
            new.location = op.location
            self.block.insert_op_before(new, op)
        new.results[0].name_hint = op.results[0].name_hint
        op.results[0].replace_all_uses_with(new.results[0])
        self.erase(op)

    def erase(self, op: Operation | Block) -> None:
        """Remove an op whose results are unused."""
        if isinstance(op, Operation) and not any(result.uses for result in op.results):
            op.detach()
            op.erase()


def _dtype(folding: _Folding, source: SSAValue) -> np.dtype[np.generic]:
    array = folding.known(source)
    assert array is not None
    return array.dtype


def _by_channel(scale: Array, op: GraphOp, linear: LinearWeight) -> Array | None:
    """One factor for each channel of an op's result; None if the scale varies otherwise."""
    rank = len(op.shape)
    aligned = scale.reshape((1,) * (rank - scale.ndim) + scale.shape)
    if any(extent != 1 for axis, extent in enumerate(aligned.shape) if axis != linear.channel):
        return None
    return np.broadcast_to(aligned.reshape(-1), (op.shape[linear.channel],))
