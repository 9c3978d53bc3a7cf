"""Lowering of a `te.func` to a `loop.func`: each stage is a serial loop nest around one block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    MemRefType,
    TensorType,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.rewriter import InsertPoint
from xdsl.utils.hints import isa

from tcopt.dialects import loop, te
from tcopt.dialects.fast_math import allow
from tcopt.dialects.loop import IterKind
from tcopt.dialects.size import (
    extents_of,
    set_function_symbols,
    size_arguments,
    sized_memref,
    symbols_in,
)
from tcopt.dialects.te import Combiner
from tcopt.dialects.te.borders import BorderStage, match_border
from tcopt.dialects.te.names import unique_name
from tcopt.passes.loop.bufferize.nest_variables import Indexing, NestVariables
from tcopt.support.arithmetic.sizes import upper_bound
from tcopt.support.locations import set_location
from tcopt.support.memo import memo

AnyMemRef = MemRefType[Attribute]


@memo(8192)
def memref_of(type: Attribute) -> AnyMemRef:
    """Return the row-major buffer type for a tensor."""
    assert isa(type, TensorType[Attribute])
    return sized_memref(extents_of(type), type.get_element_type())


@dataclass(frozen=True)
class StageBuffer:
    """Location of a stage's elements in a buffer, with an optional offset in each dimension."""

    buffer: SSAValue
    low: tuple[int, ...] | None = None

    def map(self, rank: int) -> AffineMap:
        """Return the map from the stage's indices to the buffer's."""
        if self.low is None:
            return AffineMap.identity(rank)
        dims = (AffineDimExpr(axis) for axis in range(rank))
        return AffineMap(rank, 0, tuple(d + n for d, n in zip(dims, self.low, strict=True)))


@dataclass(frozen=True)
class Rounding:
    """Roundings that the loops' arithmetic permits: see `tcopt.dialects.fast_math`."""

    contract: bool = True
    reassoc: bool = True


def lower_function(function: te.FuncOp, rounding: Rounding = Rounding()) -> loop.FuncOp:
    """Return the `loop.func` of a `te.func`: inputs, one buffer for each result, then its sizes.

    If a result is another stage with a border, the inner stage is written to an offset in it, and a
    `loop.border` fills the border.
    """
    inputs = function.tensor_arguments
    sizes = function.body.block.args[len(inputs) :]
    outputs = function.outputs
    arg_types: list[Attribute] = [memref_of(value.type) for value in (*inputs, *outputs)]
    arg_types += [IndexType()] * len(sizes)
    block = Block(arg_types=arg_types)
    count = len(inputs)
    buffers: dict[SSAValue, SSAValue] = {}
    for source, argument in zip(inputs, block.args, strict=False):
        argument.name_hint = source.name_hint
        buffers[source] = argument
    copies: list[tuple[SSAValue, SSAValue]] = []
    for value, argument in zip(outputs, block.args[count:], strict=False):
        hint = value.name_hint
        argument.name_hint = f"{hint}_out" if value in buffers and hint else hint
        if value in buffers:
            copies.append((value, argument))
        else:
            buffers[value] = argument
    for source, argument in zip(sizes, block.args[count + len(outputs) :], strict=True):
        argument.name_hint = source.name_hint
        buffers[source] = argument
    builder = Builder(InsertPoint.at_end(block))
    names: set[str] = {stage.stage.data for stage in function.stages}
    borders = [b for stage in function.stages if (b := match_border(stage)) is not None]
    inner = {border.inner.result: border for border in borders}
    filled = {border.stage.result: border for border in borders}
    for stage in function.stages:
        if stage.result in filled:
            border = filled[stage.result]
            fill = builder.insert(_fill_of(border, buffers[stage.result]))
            set_location([fill], stage.location)
            continue
        if stage.result in inner:
            border = inner[stage.result]
            place = StageBuffer(buffers[border.stage.result], border.low)
            _emit_stage(builder, stage, place, buffers, rounding)
            continue
        if stage.result not in buffers:
            alloc = builder.insert(loop.AllocOp(memref_of(stage.result.type)))
            alloc.result.name_hint = stage.result.name_hint
            buffers[stage.result] = alloc.result
            set_location([alloc], stage.location)
        _emit_stage(builder, stage, StageBuffer(buffers[stage.result]), buffers, rounding)
    for source, target in copies:
        emit_copy(builder, buffers[source], target, unique_name("copy", names), function.location)
    lowered = loop.FuncOp(function.sym_name.data, arg_types, Region(block))
    lowered.attributes.update(function.attributes)
    lowered.location = function.location
    return lowered


def _fill_of(border: BorderStage, buffer: SSAValue) -> loop.BorderOp:
    end = [low + n for low, n in zip(border.low, border.inner.spatial_extents, strict=True)]
    return loop.BorderOp(buffer, border.low, end, border.value)


def copy_function(name: str, type: AnyMemRef, location: LocationAttr) -> loop.FuncOp:
    """Return a `loop.func` that copies a buffer of `type`."""
    symbols = symbols_in([type])
    arg_types: list[Attribute] = [type, type, *(IndexType() for _ in symbols)]
    block = Block(arg_types=arg_types)
    source, target, *sizes = block.args
    source.name_hint, target.name_hint = "x", "out"
    for argument, symbol in zip(sizes, symbols, strict=True):
        argument.name_hint = symbol.name
    emit_copy(Builder(InsertPoint.at_end(block)), source, target, "copy", location)
    function = loop.FuncOp(name, arg_types, Region(block))
    set_function_symbols(function, symbols)
    function.location = location
    return function


def emit_copy(
    builder: Builder, source: SSAValue, target: SSAValue, name: str, location: LocationAttr
) -> None:
    """Emit a nest that copies a buffer to another of the same shape."""
    assert isa(source.type, AnyMemRef)
    shape = cast("tuple[int, ...]", extents_of(source.type))
    nest = _Nest(builder, name, shape, (), [f"i{axis}" for axis in range(len(shape))])
    identity = AffineMap.identity(len(shape))
    load = nest.body.insert(loop.LoadOp(source, identity, nest.variables))
    nest.body.insert(loop.StoreOp(load.result, target, identity, nest.variables))
    set_location([nest.root], location)


class _Nest:
    """Serial loops over every axis, around an empty block whose variables they are.

    The loop over an axis whose extent is a size runs to its upper bound; the block has the size.
    """

    def __init__(
        self,
        builder: Builder,
        name: str,
        spatial: Sequence[int],
        reduce: Sequence[int],
        hints: Sequence[str | None],
    ):
        extents = (*spatial, *reduce)
        root: Operation | None = None
        loops: list[SSAValue] = []
        for extent, hint in zip(extents, hints, strict=True):
            region = Region(Block(arg_types=[IndexType()]))
            op = builder.insert(loop.ForOp(upper_bound(extent), region))
            op.induction_variable.name_hint = hint
            loops.append(op.induction_variable)
            root = root or op
            builder = Builder(InsertPoint.at_end(region.block))
        kinds = [IterKind.SPATIAL] * len(spatial) + [IterKind.REDUCE] * len(reduce)
        body = Region(Block(arg_types=[IndexType()] * len(extents)))
        for argument, hint in zip(body.block.args, hints, strict=True):
            argument.name_hint = f"v{hint}" if hint else None
        identity = AffineMap.identity(len(extents))
        block = builder.insert(loop.BlockOp(name, kinds, extents, identity, loops, body))
        self.root: Operation = root or block
        self.variables = list(body.block.args)
        self.body = Builder(InsertPoint.at_end(body.block))


def _emit_stage(
    builder: Builder,
    stage: te.ComputeOp,
    target: StageBuffer,
    buffers: dict[SSAValue, SSAValue],
    rounding: Rounding,
) -> None:
    if stage.combiner is not None and 0 in stage.reduction_extents:
        _emit_identity(builder, stage, target)
        return
    axes = NestVariables.of(stage)
    spatial = len(axes.extents)
    name = stage.stage.data
    nest = _Nest(builder, name, axes.extents, stage.reduction_extents, axes.all_hints)
    place = nest.variables[:spatial]
    buffer, map = target.buffer, axes.place(target.map(len(stage.spatial_extents)))
    element = stage.yielded.type
    if stage.combiner is not None:
        init = Block()
        start = Builder(InsertPoint.at_end(init))
        zero = start.insert(arith.ConstantOp(identity_of(stage.combiner.data, element)))
        start.insert(loop.StoreOp(zero.result, buffer, map, place))
        nest.body.insert(loop.InitOp(Region(init)))
    indexing = axes.bind(nest.variables, _sizes_in(stage, buffers))
    values = indexing.values
    for op in stage.body.block.ops:
        if isinstance(op, te.YieldOp):
            result = values[op.value]
            if stage.combiner is not None:
                total = nest.body.insert(loop.LoadOp(buffer, map, place))
                combined = combine_op(stage.combiner.data, total.result, result)
                allow(combined, contract=rounding.contract, reassoc=rounding.reassoc)
                result = nest.body.insert(combined).results[0]
            nest.body.insert(loop.StoreOp(result, buffer, map, place))
        else:
            _emit_body_op(nest.body, op, indexing, buffers, rounding)
    set_location([nest.root], stage.location)


def _sizes_in(stage: te.ComputeOp, values: dict[SSAValue, SSAValue]) -> dict[SSAValue, SSAValue]:
    """Return the arguments of the loop function for the sizes of a stage's function."""
    function = stage.parent_op()
    sizes = {} if function is None else size_arguments(function)
    return {size: values[size] for size in sizes.values()}


def _emit_identity(builder: Builder, stage: te.ComputeOp, target: StageBuffer) -> None:
    """Emit the nest of a reduction without terms."""
    assert stage.combiner is not None
    hints = [axis.name_hint for axis in stage.body.block.args][: len(stage.spatial_extents)]
    nest = _Nest(builder, stage.stage.data, stage.spatial_extents, (), hints)
    value = identity_of(stage.combiner.data, stage.yielded.type)
    start = nest.body.insert(arith.ConstantOp(value))
    map = target.map(len(hints))
    nest.body.insert(loop.StoreOp(start.result, target.buffer, map, nest.variables))
    set_location([nest.root], stage.location)


def _emit_body_op(
    builder: Builder,
    op: Operation,
    indexing: Indexing,
    buffers: dict[SSAValue, SSAValue],
    rounding: Rounding,
) -> None:
    values = indexing.values
    match op:
        case te.ReadOp():
            map, indices = indexing.apply(op.map.data, op.indices)
            new: Operation = loop.LoadOp(buffers[op.source], map, indices, default=op.default)
        case te.IndexOp():
            new = loop.IndexOp(*indexing.apply(op.map.data, op.indices))
        case _:
            new = op.clone(values)
            allow(new, contract=rounding.contract)
    builder.insert(new)
    for old, result in zip(op.results, new.results, strict=True):
        values[old] = result
        result.name_hint = old.name_hint


def combine_op(combiner: Combiner, total: SSAValue, term: SSAValue) -> Operation:
    """Return the operation that combines a term with the total."""
    type_ = total.type
    if isinstance(type_, AnyFloat):
        floats = {
            Combiner.SUM: arith.AddfOp,
            Combiner.PROD: arith.MulfOp,
            Combiner.MAX: arith.MaximumfOp,
            Combiner.MIN: arith.MinimumfOp,
        }
        return floats[combiner](total, term)
    if type_ == i1:
        return (arith.OrIOp if _is_max(combiner) else arith.AndIOp)(total, term)
    integers = {
        Combiner.SUM: arith.AddiOp,
        Combiner.PROD: arith.MuliOp,
        Combiner.MAX: arith.MaxSIOp,
        Combiner.MIN: arith.MinSIOp,
        Combiner.UMAX: arith.MaxUIOp,
        Combiner.UMIN: arith.MinUIOp,
    }
    return integers[combiner](total, term)


def _is_max(combiner: Combiner) -> bool:
    return combiner in (Combiner.MAX, Combiner.UMAX)


def identity_of(combiner: Combiner, type: Attribute) -> IntegerAttr | FloatAttr:
    """Return the identity element of a combiner."""
    if isinstance(type, AnyFloat):
        floats = {Combiner.SUM: 0.0, Combiner.PROD: 1.0, Combiner.MAX: -math.inf}
        return FloatAttr(floats.get(combiner, math.inf), type)
    assert isa(type, IntegerType)
    bits = type.width.data
    if bits == 1:
        value = 0 if _is_max(combiner) else 1
    else:
        value = {
            Combiner.SUM: 0,
            Combiner.PROD: 1,
            Combiner.MAX: -(1 << (bits - 1)),
            Combiner.MIN: (1 << (bits - 1)) - 1,
            Combiner.UMAX: 0,
            Combiner.UMIN: -1,
        }[combiner]
    return IntegerAttr(value, type)
