"""Rewriting of a function to merged axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import FunctionType, IndexType, IntegerAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from tcopt.dialects.graph.core.types import AnyTensor, element_type, shape_of, tensor
from tcopt.dialects.size import size_arguments, size_expression
from tcopt.dialects.te import ComputeOp, FuncOp, IndexOp, ReadOp, ReturnOp
from tcopt.dialects.te.access import index_ranges
from tcopt.passes.te.axis_groups import Grouping, Groups, Holder
from tcopt.support.arithmetic.affine import linear_sum, simplify, substitute
from tcopt.support.locations import set_location
from tcopt.support.syntax.access_syntax import unique_operands


def regroup(function: FuncOp, grouping: Grouping) -> FuncOp:
    """Return the function over tensors and stages with merged axes."""
    return _Regrouping(function, grouping).run()


def merged_extents(extents: Sequence[int], groups: Groups) -> list[int]:
    """Return the extents of the new axes."""
    return [math.prod(extents[place] for place in group) for group in groups]


class _Regrouping:
    def __init__(self, function: FuncOp, grouping: Grouping):
        self.function = function
        self.groups = grouping.groups
        self.values: dict[SSAValue, SSAValue] = {}
        self.axes: dict[SSAValue, AffineConstantExpr | SSAValue] = {}
        """The new axis of each old axis; 0 for axes of extent 1."""

    def run(self) -> FuncOp:
        old = self.function.body.block
        block = Block(arg_types=[self._argument_type(argument) for argument in old.args])
        for argument, new in zip(old.args, block.args, strict=True):
            new.name_hint = argument.name_hint
            self.values[argument] = new
        for stage in self.function.stages:
            block.add_op(self._stage(stage))
        outputs = [self.values[value] for value in self.function.outputs]
        block.add_op(ReturnOp(outputs))
        result = FuncOp(
            self.function.sym_name.data,
            FunctionType.from_lists(list(block.arg_types), [value.type for value in outputs]),
            Region(block),
        )
        result.attributes.update(self.function.attributes)
        result.location = self.function.location
        return result

    def _argument_type(self, argument: SSAValue) -> Attribute:
        is_tensor = argument in self.groups
        return self._type(argument) if is_tensor else argument.type

    def _type(self, value: SSAValue) -> AnyTensor:
        extents = merged_extents(shape_of(value), self.groups[value])
        return tensor(extents, element_type(value))

    def _stage(self, stage: ComputeOp) -> ComputeOp:
        reduce: Holder = stage
        spatial_groups = self.groups[stage.result]
        reduce_groups = self.groups[reduce] if stage.is_reduction else []
        extents = merged_extents(stage.spatial_extents, spatial_groups)
        reduce_extents = merged_extents(stage.reduction_extents, reduce_groups)
        body = Block(arg_types=[IndexType()] * (len(extents) + len(reduce_extents)))
        old = stage.body.block.args
        first = len(stage.spatial_extents)
        for axis in old:
            self.axes[axis] = AffineConstantExpr(0)
        places = [*spatial_groups, *([first + p for p in group] for group in reduce_groups)]
        for group, axis in zip(places, body.args, strict=True):
            names = [old[place].name_hint for place in group]
            axis.name_hint = "_".join(name for name in names if name) or None
            self.axes.update((old[place], axis) for place in group)
        for op in stage.body.block.ops:
            self._op(op, body)
        new = ComputeOp(
            stage.stage.data,
            extents,
            Region(body),
            self._type(stage.result),
            reduce_extents,
            None if stage.combiner is None else stage.combiner.data,
        )
        new.attributes.update(stage.attributes)
        new.location = stage.location
        new.result.name_hint = stage.result.name_hint
        self.values[stage.result] = new.result
        return new

    def _op(self, op: Operation, body: Block) -> None:
        match op:
            case ReadOp():
                new: Operation = self._read(op)
            case IndexOp():
                new = IndexOp(*self._map([op.expr], op.indices))
            case _:
                operands = [self._operand(value, body) for value in op.operands]
                new = op.clone(dict(zip(op.operands, operands, strict=True)))
        body.add_op(new)
        set_location([new], op.location)
        for before, after in zip(op.results, new.results, strict=True):
            after.name_hint = before.name_hint
            self.values[before] = after

    def _operand(self, value: SSAValue, body: Block) -> SSAValue:
        new = self.axes.get(value, self.values.get(value, value))
        if isinstance(new, SSAValue):
            return new
        zero = arith.ConstantOp(IntegerAttr.from_index_int_value(0))
        body.add_op(zero)
        return zero.result

    def _read(self, op: ReadOp) -> ReadOp:
        ranges = index_ranges(op.indices)
        exprs: list[AffineExpr] = []
        indices = list(op.indices)
        for group in self.groups[op.source]:
            expr = op.map.data.results[group[0]]
            if len(group) > 1:
                # The merged axis counts elements of all axes, so the constant must be scaled.
                inner = math.prod(op.source_shape[place] for place in group[1:])
                shift = linear_sum(expr, ranges).constant * (inner - 1)
                extra, sizes = size_expression(shift, size_arguments(self.function))
                dims = [AffineDimExpr(len(indices) + place) for place in range(len(sizes))]
                expr = expr + substitute(extra, dims)
                indices += sizes
            exprs.append(expr)
        map, indices = self._map(exprs, indices)
        return ReadOp(self.values[op.source], map, indices, op.default)

    def _map(
        self, exprs: Sequence[AffineExpr], indices: Sequence[SSAValue]
    ) -> tuple[AffineMap, list[SSAValue]]:
        """Return index expressions over the new axes."""
        dims: list[AffineExpr] = []
        operands: list[SSAValue] = []
        for value in indices:
            new = self.axes.get(value, self.values.get(value, value))
            if isinstance(new, SSAValue):
                dims.append(AffineDimExpr(len(operands)))
                operands.append(new)
            else:
                dims.append(new)
        results = [substitute(expr, dims) for expr in exprs]
        ranges = index_ranges(operands)
        map = AffineMap(len(operands), 0, tuple(simplify(expr, ranges) for expr in results))
        return unique_operands(map, operands)
