"""Interpreter of @main at the loop or kernel level, with a callback for function calls.

Before `plan-memory`, @main allocates buffers; after it, they are views of one workspace.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    UnrealizedConversionCastOp,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.graph.core.weights import weights_of
from tcopt.support.data.dtypes import numpy_dtype
from tcopt.support.errors import UnsupportedError

Array = NDArray[Any]
CallFunction = Callable[[Operation, str, list[Array]], None]
"""Runs a function by name on buffers, for a call op."""


class HostProgram:
    """Run @main on buffers for its inputs and results.

    Args:
        call: runs the called functions.
    """

    def __init__(self, module: ModuleOp, call: CallFunction):
        self.module = module
        self.call = call
        self.values: dict[SSAValue, Any] = {}

    def run(self, main: func.FuncOp, arrays: Sequence[Array]) -> None:
        """Run @main; if it is planned, arrays include weights and workspace, see `planned`."""
        self.values.update(zip(main.body.block.args, arrays, strict=True))
        for op in main.body.block.ops:
            self.step(op)

    def step(self, op: Operation) -> None:
        values = self.values
        match op:
            case loop.CallOp() | func.CallOp():
                arrays = [np.asarray(values[argument]) for argument in op.operands]
                self.call(op, op.callee.string_value(), arrays)
            case memref.AllocOp():
                shape, dtype = array_type(op.memref.type)
                values[op.memref] = unwritten(shape, dtype)
            case loop.WeightOp():
                values[op.result] = self.weight(op)
            case memref.ReinterpretCastOp():
                shape = self.shape(op)
                start = op.static_offsets.get_values()[0]
                flat = values[op.source].reshape(-1)
                values[op.result] = flat[start : start + int(np.prod(shape))].reshape(shape)
            case memref.ViewOp():
                shape, dtype = array_type(op.result.type)
                values[op.result] = view(
                    values[op.source], int(values[op.byte_shift]), shape, dtype
                )
            case UnrealizedConversionCastOp():
                _, dtype = array_type(op.outputs[0].type)
                values[op.outputs[0]] = values[op.inputs[0]].view(dtype)
            case memref.CopyOp():
                np.copyto(values[op.destination], values[op.source])
            case scf.ForOp():
                for step in range(*(int(values[bound]) for bound in (op.lb, op.ub, op.step))):
                    values[op.body.block.args[0]] = step
                    for inner in op.body.block.ops:
                        self.step(inner)
            case _:
                self.step_index(op)

    def _access(self, op: memref.LoadOp | memref.StoreOp) -> None:
        """Load or store one element."""
        values = self.values
        buffer, place = values[op.memref], tuple(int(values[index]) for index in op.indices)
        if isinstance(op, memref.StoreOp):
            buffer[place] = values[op.value]
        else:
            values[op.res] = buffer[place]

    def _while(self, op: scf.WhileOp) -> None:
        """Run a loop that ends by a condition."""
        values, before, after = self.values, op.before_region.block, op.after_region.block
        carried = [values[each] for each in op.arguments]
        while True:
            values.update(zip(before.args, carried, strict=True))
            for inner in before.ops:
                self.step(inner)
            last = before.last_op
            assert isinstance(last, scf.ConditionOp)
            goes_on, *passed = (values[each] for each in last.operands)
            if not goes_on:
                break
            values.update(zip(after.args, passed, strict=True))
            for inner in after.ops:
                self.step(inner)
            assert after.last_op is not None
            carried = [values[each] for each in after.last_op.operands]
        values.update(zip(op.results, passed, strict=True))

    def step_index(self, op: Operation) -> None:
        values = self.values
        match op:
            case loop.SliceOp():
                values[op.result] = values[op.source][int(values[op.index]), ...]
            case _ if (function := _INDEX_OPS.get(type(op))) is not None:
                values[op.results[0]] = function(*(int(values[each]) for each in op.operands))
            case arith.ConstantOp(value=IntegerAttr() as number):
                values[op.result] = number.value.data
            case scf.WhileOp():
                self._while(op)
            case memref.LoadOp() | memref.StoreOp():
                self._access(op)
            case arith.CmpiOp(predicate=IntegerAttr() as predicate):
                compare = _COMPARISONS[predicate.value.data]
                values[op.result] = compare(int(values[op.lhs]), int(values[op.rhs]))
            case func.ReturnOp() | memref.DeallocOp() | scf.YieldOp() | scf.ConditionOp():
                pass
            case _:
                raise UnsupportedError("cannot run this op of the host program", op=op)

    def shape(self, op: memref.ReinterpretCastOp) -> tuple[int, ...]:
        """Return the shape of a view, whose extents may be values."""
        dynamic = iter(op.sizes)
        return tuple(
            int(self.values[next(dynamic)]) if size == DYNAMIC_INDEX else size
            for size in op.static_sizes.get_values()
        )

    def weight(self, op: loop.WeightOp) -> Array:
        store = weights_of(self.module)
        if store is None:
            raise UnsupportedError("the module's weights are not available", op=op)
        shape, _ = array_type(op.result.type)
        return np.ascontiguousarray(store[op.weight.data]).reshape(shape)


_INDEX_OPS: dict[type[Operation], Callable[..., int]] = {
    arith.AddiOp: operator.add,
    arith.SubiOp: operator.sub,
    arith.MuliOp: operator.mul,
    arith.DivUIOp: operator.floordiv,
    arith.FloorDivSIOp: operator.floordiv,
    arith.RemUIOp: operator.mod,
    arith.MinSIOp: min,
    arith.MaxSIOp: max,
    arith.AndIOp: operator.and_,
    arith.IndexCastOp: int,
}
"""Arithmetic on indices, sizes and conditions."""

_COMPARISONS = (
    operator.eq,
    operator.ne,
    *(operator.lt, operator.le, operator.gt, operator.ge) * 2,
)
"""Comparisons by their number in `arith.cmpi`; indices are not negative."""

_CALLS = (loop.CallOp, func.CallOp, loop.WeightOp, memref.CopyOp)
_STEPS = (
    memref.AllocOp,
    memref.ReinterpretCastOp,
    memref.ViewOp,
    memref.DeallocOp,
    UnrealizedConversionCastOp,
    scf.ForOp,
    scf.WhileOp,
    scf.ConditionOp,
    scf.YieldOp,
    memref.LoadOp,
    memref.StoreOp,
    arith.CmpiOp,
    loop.SliceOp,
    arith.ConstantOp,
    func.ReturnOp,
    *_INDEX_OPS,
)


def is_host_program(entry: Operation) -> bool:
    """Whether a function only calls others, on buffers that it allocates and views."""
    ops = [op for op in entry.walk() if op is not entry]
    return (
        isinstance(entry, func.FuncOp)
        and all(isinstance(op, _CALLS + _STEPS) for op in ops)
        and any(isinstance(op, _CALLS) for op in ops)
    )


def view(source: Array, start: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array in a block of bytes.

    Raises:
        IndexError: it would exceed the block.
    """
    size = int(np.prod(shape)) * dtype.itemsize
    if start < 0 or start + size > source.nbytes:
        raise IndexError(f"a view of {size} bytes from {start} leaves a block of {source.nbytes}")
    return source[start : start + size].view(dtype).reshape(shape)


def unwritten(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Return an array filled with a value that shows up in results: NaN, or the minimum integer."""
    if dtype.kind == "b":
        return np.ones(shape, dtype)
    worst = np.iinfo(dtype).min if dtype.kind in "iu" else np.nan
    return np.full(shape, worst).astype(dtype)


def array_type(type_: Attribute) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and dtype of a buffer."""
    assert isa(type_, MemRefType)
    return tuple(type_.get_shape()), np.dtype(numpy_dtype(type_.element_type))
