"""Lowering of expression trees to `te.func` with `te.compute` stages.

Element types in the IR are signless, as arith requires; unsigned dtypes of the expressions
choose the unsigned operations (`divui`, `extui`, `cmpi ult`, ...).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.arith import MaxSIOp, MinSIOp
from xdsl.dialects.builtin import FunctionType, IndexType, TensorType
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from tcopt.dialects.arith_ import CmpiOp, SelectOp
from tcopt.dialects.size import set_function_symbols, size_expression, sized_tensor
from tcopt.dialects.table import LookupOp, ScaleOp
from tcopt.dialects.te.access import (
    ReadOp,
    certainly_outside,
    extent_range_by,
    is_computed,
)
from tcopt.dialects.te.dtypes import ExpressionError, is_unsigned
from tcopt.dialects.te.expr import (
    Axis,
    Cast,
    Const,
    Expr,
    FromIndex,
    Index,
    IndexCompare,
    Op,
    Read,
    SizeIndex,
)
from tcopt.dialects.te.function_sizes import FunctionSizes
from tcopt.dialects.te.functions import ComputedIndex, Lookup, Scaled
from tcopt.dialects.te.names import hint_of, unique_name
from tcopt.dialects.te.ops import ComputeOp, FuncOp, ReturnOp, YieldOp
from tcopt.dialects.te.scalar import Emitter, storage_type, stored_number
from tcopt.dialects.te.tensor import Placeholder, Stage, Tensor, topological
from tcopt.support.arithmetic.affine import bounds, simplify, substitute
from tcopt.support.arithmetic.extent_ranges import (
    ExtentRange,
    below,
    is_in_range,
    number_ranges,
)
from tcopt.support.arithmetic.intervals import Range
from tcopt.support.arithmetic.sizes import lower_bound
from tcopt.support.ir.literals import number_attr
from tcopt.support.syntax.access_syntax import unique_operands


def func(
    name: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor] | Tensor,
    sizes: FunctionSizes | None = None,
) -> FuncOp:
    """Build a `te.func` that computes `outputs` from the placeholders `inputs`.

    Args:
        name: the symbol.
        inputs: placeholders, one argument each, in order.
        outputs: the results; stages that they do not depend on are omitted.
        sizes: receives the sizes of the function; the default drops the values for calls.
    Raises:
        ExpressionError: an input is not a placeholder, or a placeholder is not an input.
    """
    results = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    for tensor in inputs:
        if not isinstance(tensor, Placeholder):
            raise ExpressionError(f"input '{tensor.name}' of te.func is not a placeholder")
    sizes = sizes or FunctionSizes()
    block = Block(arg_types=[_tensor_type(tensor, sizes) for tensor in inputs])
    sizes.add_arguments(block)
    values: dict[int, SSAValue] = {}
    for tensor, argument in zip(inputs, block.args, strict=False):
        argument.name_hint = hint_of(tensor.name)
        values[id(tensor)] = argument
    names: set[str] = set()
    for tensor in topological(results):
        if id(tensor) in values:
            continue
        if not isinstance(tensor, Stage):
            raise ExpressionError(f"placeholder '{tensor.name}' is not among the inputs")
        op = _emit_stage(tensor, values, unique_name(tensor.name, names), sizes)
        block.add_op(op)
        values[id(tensor)] = op.result
    block.add_op(ReturnOp([values[id(tensor)] for tensor in results]))
    outputs_types = [values[id(tensor)].type for tensor in results]
    type_ = FunctionType.from_lists(list(block.arg_types), outputs_types)
    function = FuncOp(name, type_, Region(block))
    set_function_symbols(function, sizes.symbols)
    return function


def _tensor_type(tensor: Tensor, sizes: FunctionSizes) -> TensorType:
    """Return the IR type of a tensor."""
    return sized_tensor(sizes.shape(tensor.shape), storage_type(tensor.dtype))


def _emit_stage(
    stage: Stage, values: dict[int, SSAValue], name: str, sizes: FunctionSizes
) -> ComputeOp:
    """Build the `te.compute` of a stage; `values` maps tensors, by id, to their values."""
    axes = (*stage.axes, *stage.reduce_axes)
    block = Block(arg_types=[IndexType()] * len(axes))
    for axis, argument in zip(axes, block.args, strict=True):
        argument.name_hint = hint_of(axis.name)
    arguments: dict[int, SSAValue] = {
        id(axis): arg for axis, arg in zip(axes, block.args, strict=True)
    }
    extents = sizes.shape([axis.extent for axis in axes])
    body = _Body(
        stage,
        Emitter(block),
        values,
        arguments,
        {argument: below(extent) for argument, extent in zip(block.args, extents, strict=True)},
        0 in extents,
        sizes,
    )
    block.add_op(YieldOp(body.emit(stage.body, False)))
    spatial = len(stage.axes)
    op = ComputeOp(
        name,
        extents[:spatial],
        Region(block),
        _tensor_type(stage, sizes),
        extents[spatial:],
        stage.combiner,
    )
    op.location = stage.location
    op.result.name_hint = hint_of(name)
    return op


@dataclass
class _Body:
    """Emits the expressions of one stage, each once."""

    stage: Stage
    emitter: Emitter
    tensors: dict[int, SSAValue]
    axes: dict[int, SSAValue]
    ranges: Mapping[SSAValue, ExtentRange]
    never_runs: bool
    sizes: FunctionSizes
    done: dict[tuple[int, bool], SSAValue] = field(default_factory=dict[tuple[int, bool], SSAValue])

    def emit(self, expr: Expr, guarded: bool) -> SSAValue:
        """Return the value of `expr`; with `guarded`, out-of-bounds reads return zero."""
        key = (id(expr), guarded)
        value = self.done.get(key)
        if value is None:
            value = self.done[key] = self._emit(expr, guarded)
        return value

    def _emit(self, expr: Expr, guarded: bool) -> SSAValue:
        emitter = self.emitter
        match expr:
            case Const():
                return emitter.constant(expr.value, expr.dtype)
            case Read():
                return self._read(expr, guarded)
            case Cast():
                source = self.emit(expr.operand, guarded)
                return emitter.cast(source, expr.operand.dtype, expr.dtype)
            case FromIndex():
                return self._from_index(expr, guarded)
            case IndexCompare():
                return self._compare_indices(expr, guarded)
            case Scaled():
                operand = self.emit(expr.operand, guarded)
                index, range_ = self._index_value(expr.index, guarded)
                if is_computed(index):
                    index = self._limit(index, range_, len(expr.table))
                return emitter.add(ScaleOp(operand, index, expr.table))
            case Lookup():
                return emitter.add(LookupOp(self.emit(expr.operand, guarded), expr.table))
            case Op(kind="select" | "guarded_select"):
                inner = guarded or expr.kind == "guarded_select"
                condition, lhs, rhs = expr.operands
                test = self.emit(condition, guarded)
                return emitter.add(SelectOp(test, self.emit(lhs, inner), self.emit(rhs, inner)))
            case Op():
                operands = [self.emit(operand, guarded) for operand in expr.operands]
                return emitter.operation(expr.kind, operands, expr.operands[0].dtype)
            case _:
                raise ExpressionError(f"{type(expr).__name__} cannot be part of an expression")

    def _access(
        self, indices: Sequence[Index], guarded: bool
    ) -> tuple[AffineMap, list[SSAValue], list[ExtentRange]]:
        """Return one map for several indices, with its operands and their ranges."""
        operands: list[SSAValue] = []
        ranges: list[ExtentRange] = []
        results: list[AffineExpr] = []

        def operand(value: SSAValue) -> AffineExpr:
            if value not in operands:
                operands.append(value)
                ranges.append(extent_range_by(value, self._argument_range))
            return AffineDimExpr(operands.index(value))

        for index in indices:
            dims: list[AffineExpr] = []
            for dim in index.dims:
                expr, values = self._leaf(dim, guarded)
                dims.append(substitute(expr, [operand(value) for value in values]))
            results.append(substitute(index.expr, dims))
        numbers = number_ranges(ranges)
        simple = tuple(simplify(expr, numbers) for expr in results)
        return AffineMap(len(operands), 0, simple), operands, ranges

    def _leaf(self, dim: Index, guarded: bool) -> tuple[AffineExpr, list[SSAValue]]:
        """Return an index without parts as an expression of values."""
        if isinstance(dim, Axis):
            return AffineDimExpr(0), [self.axes[id(dim)]]
        if isinstance(dim, SizeIndex):
            return self.sizes.expression(dim.size)
        assert isinstance(dim, ComputedIndex)
        value = self.emit(dim.value, guarded)
        return AffineDimExpr(0), [self.emitter.to_index(value, is_unsigned(dim.value.dtype))]

    def _argument_range(self, value: SSAValue) -> ExtentRange:
        if value in self.ranges:
            return self.ranges[value]
        size = self.sizes.size_of(value)
        return size, size

    def _read(self, read: Read, guarded: bool) -> SSAValue:
        tensor = read.tensor
        map, operands, ranges = self._access(read.indices, guarded)
        default = read.default
        extents = list(zip(map.results, self.sizes.shape(tensor.shape), strict=True))
        if all(is_in_range(expr, extent, ranges) for expr, extent in extents):
            default = None
        elif default is None and guarded:
            default = 0
        if default is None and not self.never_runs:
            if 0 in tensor.shape and any(_is_computed(index) for index in read.indices):
                return self.emitter.constant(0, tensor.dtype)
            default = self._default_for(read, extents, ranges)
            map, operands = self._limited(read, map, operands, extents, ranges)
        element = storage_type(tensor.dtype)
        attr = None
        if default is not None:
            attr = number_attr(stored_number(default, tensor.dtype), element)
        compact, used = unique_operands(map, operands)
        return self.emitter.add(ReadOp(self.tensors[id(tensor)], compact, used, attr))

    def _limited(
        self,
        read: Read,
        map: AffineMap,
        operands: list[SSAValue],
        extents: Sequence[tuple[AffineExpr, int]],
        ranges: Sequence[ExtentRange],
    ) -> tuple[AffineMap, list[SSAValue]]:
        """Return the indices of a read, with computed ones clamped to the nearest index in bounds.

        This is the only code that turns data into an address, so no operator can forget to clamp.
        """
        results, values = list(map.results), list(operands)
        for position, (expr, extent) in enumerate(extents):
            # A value with only one possible result has been folded and is not an operand of the
            # map.
            if not _is_computed(read.indices[position]) or is_in_range(expr, extent, ranges):
                continue
            value = self.emitter.index_expr(expr, operands)
            results[position] = AffineDimExpr(len(values))
            limits = bounds(expr, number_ranges(ranges))
            values.append(self._limit(value, limits, extent))
        return AffineMap(len(values), 0, tuple(results)), values

    def _limit(self, value: SSAValue, range_: Range, extent: int) -> SSAValue:
        """Clamp an index to `[0, extent)`."""
        low, high = range_
        if low < 0:
            value = self.emitter.add(MaxSIOp(value, self.emitter.index_constant(0)))
        if high >= lower_bound(extent):
            last = self.emitter.index_expr(*size_expression(extent - 1, self.sizes.arguments))
            value = self.emitter.add(MinSIOp(value, last))
        return value

    def _default_for(
        self,
        read: Read,
        extents: Sequence[tuple[AffineExpr, int]],
        ranges: Sequence[ExtentRange],
    ) -> int | None:
        """Return a default for an index that only relations between sizes prove in bounds.

        The sizes of the function have ranges alone: `x[i]` with `i` below `min(n, k)` is below
        `n`, but `i` below `s0` may not be below `s1`. The default is never used.

        Raises:
            ExpressionError: an index is not in bounds.
        """
        default = None
        for position, (expr, extent) in enumerate(extents):
            index = read.indices[position]
            if _is_computed(index) or not certainly_outside(expr, extent, ranges):
                continue
            size = read.tensor.shape[position]
            if not is_in_range(index.expr, size, [_range_for_caller(dim) for dim in index.dims]):
                raise ExpressionError(
                    f"stage '{self.stage.name}' reads '{read.tensor.name}' at index {position} = "
                    f"{index}, which leaves [0, {size})",
                    hint="give a default with x.read(indices, default=...) or use te.if_then_else",
                )
            default = 0
        return default

    def _index_value(self, index: Index, guarded: bool) -> tuple[SSAValue, Range]:
        map, operands, ranges = self._access([index], guarded)
        value = self.emitter.index_expr(map.results[0], operands)
        return value, bounds(map.results[0], number_ranges(ranges))

    def _from_index(self, expr: FromIndex, guarded: bool) -> SSAValue:
        value, range_ = self._index_value(expr.index, guarded)
        return self.emitter.from_index(value, range_, expr.dtype)

    def _compare_indices(self, expr: IndexCompare, guarded: bool) -> SSAValue:
        lhs, _ = self._index_value(expr.lhs, guarded)
        rhs, _ = self._index_value(expr.rhs, guarded)
        predicate = expr.predicate if expr.predicate in ("eq", "ne") else f"s{expr.predicate}"
        return self.emitter.add(CmpiOp(lhs, rhs, predicate))


def _is_computed(index: Index) -> bool:
    """Whether an index depends on computed values."""
    return any(isinstance(dim, ComputedIndex) for dim in index.dims)


def _range_for_caller(index: Index) -> ExtentRange:
    """Return the range of an axis or a size, in sizes of the caller."""
    if isinstance(index, SizeIndex):
        return index.size, index.size
    assert isinstance(index, Axis)
    return below(index.extent)
