"""Interpreter of the tensor-expression dialect in numpy, on index grids.

A stage is evaluated by running its body once on arrays that hold the values at every point of the
axes, kept sparse: an axis is an `arange` along its own dimension, and a value has extent 1 along
axes it does not depend on. Large stages are evaluated tile by tile. Reads at linear indices are
views without a copy, and a contraction of two reads is an einsum.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import func
from xdsl.dialects.arith import MulfOp, MuliOp
from xdsl.dialects.builtin import ModuleOp, TensorType, UnrealizedConversionCastOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)
from xdsl.utils.hints import isa

from tcopt.dialects.graph.control.scan import ScanOp, run_scan
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import element_of, numpy_dtype
from tcopt.dialects.graph.core.weights import weights_of
from tcopt.dialects.te import CallOp, Combiner, ComputeOp, FuncOp, IndexOp, ReadOp, YieldOp
from tcopt.interpreters.host_calls import strings_of
from tcopt.interpreters.scalars import evaluate_scalar
from tcopt.support.arithmetic.affine import linear_sum, sum_range
from tcopt.support.data.dtypes import is_narrow
from tcopt.support.errors import InputError, UnsupportedError

Array = NDArray[Any]

TILE_POINTS = 1 << 21
"""Number of points of a stage that are evaluated at once."""

_Tile = tuple[tuple[int, int], ...]
Observer = Callable[[Operation, Sequence[Array]], None]
RunFunction = Callable[[FuncOp, Sequence[Array]], list[Array]]


def run_module(
    module: ModuleOp,
    inputs: Sequence[Array],
    *,
    observe: Observer | None = None,
    run_function: RunFunction | None = None,
) -> list[Array]:
    """Run @main, or the only function, on `inputs`; return its results.

    Args:
        observe: called with every op of @main and its results.
        run_function: runs a function that @main calls, by default `run_func`.
    Raises:
        InputError: there is no function to run, or an input has another shape.
        UnsupportedError: @main has an op of another level.
    """
    functions: dict[str, Operation] = {}
    for op in module.ops:
        if isinstance(op, func.FuncOp | FuncOp):
            functions[op.sym_name.data] = op
    entry = functions.get("main")
    if entry is None and len(functions) == 1:
        (entry,) = functions.values()
    if entry is None:
        raise InputError("the module has no function @main")
    if isinstance(entry, FuncOp):
        return (run_function or run_func)(entry, inputs)
    host = _Host(module, functions, run_function or run_func, observe)
    with strings_of(module):
        return host.run(cast(func.FuncOp, entry), inputs)


def run_func(function: FuncOp, arrays: Sequence[Array]) -> list[Array]:
    """Run a `te.func` on arrays; return its results."""
    values = run_stages(function, arrays)
    return [np.array(values[value]) for value in function.outputs]


def run_stages(function: FuncOp, arrays: Sequence[Array]) -> dict[SSAValue, Array]:
    """Return the values of all stages of a `te.func`, and of its arguments."""
    values = _bind(function.body.block, arrays)
    for stage in function.stages:
        values[stage.result] = run_stage(stage, values)
    return values


def _bind(block: Block, arrays: Sequence[Array]) -> dict[SSAValue, Array]:
    if len(arrays) != len(block.args):
        raise InputError(f"expected {len(block.args)} inputs, got {len(arrays)}")
    values: dict[SSAValue, Array] = {}
    for argument, array in zip(block.args, arrays, strict=True):
        shape, dtype = _array_type(argument)
        if np.shape(array) != shape:
            raise InputError(f"expected an input of shape {shape}, got {np.shape(array)}")
        values[argument] = _reinterpret(np.asarray(array), dtype)
    return values


def _array_type(value: SSAValue) -> tuple[tuple[int, ...], np.dtype[Any]]:
    type_ = value.type
    assert isa(type_, TensorType)
    return type_.get_shape(), numpy_dtype(type_.get_element_type())


def _reinterpret(array: Array, dtype: np.dtype[Any]) -> Array:
    """Reinterpret integers with another sign, or convert to another type."""
    if array.dtype == dtype:
        return array
    if is_narrow(element_of(array.dtype)) or is_narrow(element_of(dtype)):
        return array.view(dtype)
    if array.dtype.kind in "iu" and dtype.kind in "iu" and array.dtype.itemsize == dtype.itemsize:
        return array.view(dtype)
    return array.astype(dtype)


@dataclass(frozen=True)
class _Host:
    """Runs functions that call tensor expressions."""

    module: ModuleOp
    functions: dict[str, Operation]
    run_function: RunFunction
    observe: Observer | None

    def run(self, main: func.FuncOp, inputs: Sequence[Array]) -> list[Array]:
        values = _bind(main.body.block, inputs)
        for op in main.body.block.ops:
            operands = [values[operand] for operand in op.operands]
            if isinstance(op, func.ReturnOp):
                return [np.array(operand) for operand in operands]
            results = self.evaluate(op, operands)
            if self.observe is not None:
                self.observe(op, results)
            values.update(zip(op.results, results, strict=True))
        raise InputError("@main does not return")

    def evaluate(self, op: Operation, operands: Sequence[Array]) -> list[Array]:
        match op:
            case CallOp():
                callee = self.functions[op.callee.string_value()]
                assert isinstance(callee, FuncOp)
                return self.run_function(callee, operands)
            case ConstantOp(weight_name=str() as name):
                store = weights_of(self.module)
                if store is None or name not in store:
                    raise InputError(f"weight @{name} is not in the module's weight store")
                return [store[name]]
            case GraphOp():
                return list(op.evaluate(*operands))
            case ScanOp(step=func.FuncOp() as step):
                return run_scan(op, operands, partial(self.run, step))
            case UnrealizedConversionCastOp():
                return [_reinterpret(operands[0], _array_type(op.results[0])[1])]
            case _:
                raise UnsupportedError("cannot be run at the te level", op=op)


# Evaluation of stages.


def run_stage(stage: ComputeOp, tensors: dict[SSAValue, Array]) -> Array:
    """Evaluate one stage, given the tensors it reads."""
    _, dtype = _array_type(stage.result)
    result = np.empty(stage.spatial_extents, dtype)
    # A contraction never holds all its terms at once.
    inner = 1 if _product_of_reads(stage) else math.prod(stage.reduction_extents)
    with np.errstate(all="ignore"):
        for tile in _tiles(stage.spatial_extents, inner):
            place = tuple(slice(low, high) for low, high in tile)
            result[place] = _run_tile(stage, tile, tensors)
    return result


def _tiles(extents: Sequence[int], inner: int) -> Iterator[_Tile]:
    """Yield boxes that cover `extents`, each of at most `TILE_POINTS` evaluations if possible."""
    if not extents:
        yield ()
        return
    rest = math.prod(extents[1:]) * max(inner, 1)
    step = max(TILE_POINTS // max(rest, 1), 1)
    if rest <= TILE_POINTS:
        for low in range(0, extents[0], step):
            box = [(low, min(low + step, extents[0]))]
            yield (*box, *((0, extent) for extent in extents[1:]))
        return
    for low in range(extents[0]):
        for tile in _tiles(extents[1:], inner):
            yield ((low, low + 1), *tile)


class _Grid:
    """Values of a stage's body on one tile of its axes."""

    def __init__(self, stage: ComputeOp, tile: _Tile, tensors: dict[SSAValue, Array]):
        self.axes: list[SSAValue] = list(stage.body.block.args)
        self.box = (*tile, *((0, extent) for extent in stage.reduction_extents))
        self.shape = tuple(high - low for low, high in self.box)
        self.tensors = tensors
        self.values: dict[SSAValue, Array] = {}
        for axis, (argument, (low, high)) in enumerate(zip(self.axes, self.box, strict=True)):
            shape = [1] * len(self.axes)
            shape[axis] = high - low
            self.values[argument] = np.arange(low, high).reshape(shape)

    def index(self, expr: AffineExpr, operands: Sequence[SSAValue]) -> Array:
        """Return the values of an index expression."""
        match expr:
            case AffineConstantExpr():
                return np.full((1,) * len(self.axes), expr.value)
            case AffineDimExpr():
                return self.values[operands[expr.position]]
            case AffineBinaryOpExpr():
                lhs, rhs = self.index(expr.lhs, operands), self.index(expr.rhs, operands)
                return _index_op(expr.kind, lhs, rhs)
            case _:
                raise ValueError(f"cannot evaluate {expr}")

    def read(self, op: ReadOp) -> Array:
        """Return the elements read at every point."""
        array = self.tensors[op.source]
        view = self._view(op, array)
        if view is not None:
            return view
        indices = [self.index(expr, op.indices) for expr in op.map.data.results]
        if op.default is None:
            for index, size in zip(indices, array.shape, strict=True):
                if index.size and (index.min() < 0 or index.max() >= size):
                    raise InputError(f"te.read is out of bounds in a tensor of {array.shape}")
            return array[tuple(indices)] if indices else array.reshape((1,) * len(self.axes))
        default = array.dtype.type(op.default.value.data)
        if 0 in array.shape:
            return np.full(np.broadcast_shapes(*(i.shape for i in indices)), default)
        inside = np.ones((1,) * len(self.axes), np.bool_)
        for index, size in zip(indices, array.shape, strict=True):
            inside = inside & (index >= 0) & (index < size)
        clipped = [i.clip(0, size - 1) for i, size in zip(indices, array.shape, strict=True)]
        return np.where(inside, array[tuple(clipped)], default)

    def _view(self, op: ReadOp, array: Array) -> Array | None:
        """Return a read at linear indices in bounds as a strided view; None for other reads."""
        if any(value not in self.axes for value in op.indices) or 0 in array.shape:
            return None
        box = [self.box[self.axes.index(value)] for value in op.indices]
        if any(low >= high for low, high in box):
            return None
        ranges = [(low, high - 1) for low, high in box]
        strides = [0] * len(self.axes)
        start: list[int] = []
        for position, (expr, size) in enumerate(zip(op.map.data.results, array.shape, strict=True)):
            value = linear_sum(expr, ranges)
            low, high = sum_range(value, ranges)
            if not value.is_linear or low < 0 or high >= size:
                return None
            factors = [value.coefficient(dim) for dim in range(len(box))]
            lows = (low for low, _ in box)
            start.append(value.constant + sum(map(operator.mul, factors, lows)))
            for factor, operand in zip(factors, op.indices, strict=True):
                strides[self.axes.index(operand)] += factor * array.strides[position]
        shape = [n if stride else 1 for n, stride in zip(self.shape, strides, strict=True)]
        return np.lib.stride_tricks.as_strided(
            array[(*start, ...)], shape, strides, writeable=False
        )


def _index_op(kind: AffineBinaryOpKind, lhs: Array, rhs: Array) -> Array:
    match kind:
        case AffineBinaryOpKind.Add:
            return lhs + rhs
        case AffineBinaryOpKind.Mul:
            return lhs * rhs
        case AffineBinaryOpKind.FloorDiv:
            return lhs // rhs
        case AffineBinaryOpKind.CeilDiv:
            return -(-lhs // rhs)
        case _:
            return lhs % rhs


def _run_tile(stage: ComputeOp, tile: _Tile, tensors: dict[SSAValue, Array]) -> Array:
    grid = _Grid(stage, tile, tensors)
    if 0 in grid.shape:
        return _combine(stage, np.zeros((), _array_type(stage.result)[1]), grid.shape)
    factors = _product_of_reads(stage)
    if factors is not None:
        return _contract(stage, *(grid.read(factor) for factor in factors))
    for op in stage.body.block.ops:
        match op:
            case YieldOp():
                return _combine(stage, grid.values[op.value], grid.shape)
            case ReadOp():
                grid.values[op.result] = grid.read(op)
            case IndexOp():
                grid.values[op.result] = grid.index(op.expr, op.indices)
            case _:
                operands = [grid.values[operand] for operand in op.operands]
                grid.values[op.results[0]] = evaluate_scalar(op, operands)
    raise InputError(f'stage "{stage.stage.data}" yields nothing')


def _product_of_reads(stage: ComputeOp) -> tuple[ReadOp, ReadOp] | None:
    """Return the two reads if the stage is a sum of their products."""
    product = stage.yielded.owner
    if stage.combiner is None or stage.combiner.data is not Combiner.SUM:
        return None
    if not isinstance(product, MulfOp | MuliOp):
        return None
    lhs, rhs = product.lhs.owner, product.rhs.owner
    if isinstance(lhs, ReadOp) and isinstance(rhs, ReadOp):
        simple = all(isinstance(value.owner, Block) for value in (*lhs.indices, *rhs.indices))
        return (lhs, rhs) if simple else None
    return None


def _contract(stage: ComputeOp, lhs: Array, rhs: Array) -> Array:
    """Return the sum of products over the reduce axes."""
    _, dtype = _array_type(stage.result)
    axes = list(range(lhs.ndim))
    spatial = len(stage.spatial_extents)
    wide = np.float32 if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype
    missing = math.prod(
        extent
        for extent, a, b in zip(
            stage.reduction_extents, lhs.shape[spatial:], rhs.shape[spatial:], strict=True
        )
        if a == b == 1
    )
    operands: list[Any] = []
    for factor in (lhs, rhs):
        own = [axis for axis in axes if factor.shape[axis] != 1]
        operands += [factor.astype(wide, copy=False).reshape([factor.shape[a] for a in own]), own]
    used = {*operands[1], *operands[3]}
    kept = [axis for axis in range(spatial) if axis in used]
    total = np.einsum(*operands, kept, optimize=True)
    shape = [max(lhs.shape[axis], rhs.shape[axis]) for axis in range(spatial)]
    if missing != 1:
        total = total * np.asarray(missing).astype(wide)
    return np.asarray(total).astype(dtype).reshape(shape)


_REDUCERS: dict[Combiner, np.ufunc] = {
    Combiner.SUM: np.add,
    Combiner.PROD: np.multiply,
    Combiner.MAX: np.maximum,
    Combiner.MIN: np.minimum,
    Combiner.UMAX: np.maximum,
    Combiner.UMIN: np.minimum,
}


def _combine(stage: ComputeOp, terms: Array, shape: tuple[int, ...]) -> Array:
    """Fold the terms of a reduction; other stages are returned unchanged."""
    if stage.combiner is None:
        return np.broadcast_to(terms, shape)
    combiner = stage.combiner.data
    _, dtype = _array_type(stage.result)
    full = np.broadcast_to(terms, shape)
    axes = tuple(range(len(stage.spatial_extents), len(shape)))
    working = dtype
    if combiner in (Combiner.UMAX, Combiner.UMIN) and dtype.kind == "i":
        working = np.dtype(f"u{dtype.itemsize}")
        full = full.view(working)
    elif dtype.itemsize == 2 and dtype.kind not in "iu":
        working = np.dtype(np.float32)
        full = full.astype(working)
    start = _identity(combiner, working)
    folded = _REDUCERS[combiner].reduce(full, axis=axes, dtype=working, initial=start)
    return _reinterpret(np.asarray(folded), dtype)


def _identity(combiner: Combiner, dtype: np.dtype[Any]) -> Any:
    match combiner:
        case Combiner.SUM:
            return 0
        case Combiner.PROD:
            return 1
        case Combiner.MAX | Combiner.UMAX:
            return _extreme(dtype, -1)
        case _:
            return _extreme(dtype, 1)


def _extreme(dtype: np.dtype[Any], sign: int) -> Any:
    if dtype.kind == "b":
        return sign > 0
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return info.max if sign > 0 else info.min
    return sign * math.inf
