"""Running a module whose functions are at the kernel level, before and after its memory plan.

Before it, @main still allocates buffers and names weights: it is interpreted here, a few
ops long, and calls the compiled kernels. After it, the whole module is compiled as a model is.
Code is for this machine, whatever the module's target: what ops mean does not depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp, UnrealizedConversionCastOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.hints import isa

from tcopt.backends.llvm.host import host_target
from tcopt.backends.llvm.jit import LoadedModule, compile_module
from tcopt.dialects import loop
from tcopt.dialects.graph.weights import weights_of
from tcopt.dialects.target import TARGET_ATTRIBUTE, CpuTargetAttr
from tcopt.runtime.build import build_program
from tcopt.support.dtypes import numpy_dtype
from tcopt.support.errors import UnsupportedError

Array = NDArray[Any]


def run_function(module: ModuleOp, name: str, arguments: Sequence[Array]) -> list[Array]:
    """Call one function of a module; buffers change in place. Returns a scalar result, if any."""
    return _call(compile_module(module, host_target()), name, arguments)


def run_planned(module: ModuleOp, inputs: Sequence[Array]) -> list[Array]:
    """The results of @main after `plan-memory`."""
    here = module.clone()
    here.attributes[TARGET_ATTRIBUTE] = CpuTargetAttr.of(host_target())
    program = build_program(here, weights_of(module) or {})
    return [np.array(result) for result in program.run([np.ascontiguousarray(a) for a in inputs])]


def run_host(module: ModuleOp, main: func.FuncOp, arguments: Sequence[Array]) -> None:
    """Run @main before `plan-memory`, on buffers for its inputs and results."""
    kernels = [op for op in module.ops if isinstance(op, func.FuncOp) and op is not main]
    attributes = dict(module.attributes)
    loaded = compile_module(ModuleOp([op.clone() for op in kernels], attributes), host_target())
    values: dict[SSAValue, Array] = dict(zip(main.body.block.args, arguments, strict=True))
    for op in main.body.block.ops:
        _run_host_op(module, loaded, op, values)


def _run_host_op(
    module: ModuleOp, loaded: LoadedModule, op: Operation, values: dict[SSAValue, Array]
) -> None:
    match op:
        case func.CallOp():
            arrays = [values[argument] for argument in op.arguments]
            _call(loaded, op.callee.string_value(), arrays)
        case memref.AllocOp():
            values[op.memref] = _new_array(op.memref.type)
        case loop.WeightOp():
            store = weights_of(module)
            if store is None:
                raise UnsupportedError("the module's weights are not at hand", op=op)
            shape, _ = _array_type(op.result.type)
            values[op.result] = np.ascontiguousarray(store[op.weight.data]).reshape(shape)
        case memref.ReinterpretCastOp():
            shape, _ = _array_type(op.result.type)
            start = op.static_offsets.get_values()[0]
            flat = values[op.source].reshape(-1)
            values[op.result] = flat[start : start + int(np.prod(shape))].reshape(shape)
        case memref.ViewOp():
            shape, dtype = _array_type(op.result.type)
            start = int(values[op.byte_shift])
            size = int(np.prod(shape)) * dtype.itemsize
            bytes_ = values[op.source][start : start + size]
            values[op.result] = bytes_.view(dtype).reshape(shape)
        case UnrealizedConversionCastOp():
            _, dtype = _array_type(op.outputs[0].type)
            values[op.outputs[0]] = values[op.inputs[0]].view(dtype)
        case memref.CopyOp():
            np.copyto(values[op.destination], values[op.source])
        case scf.ForOp():
            _run_loop(module, loaded, op, values)
        case loop.SliceOp() | arith.ConstantOp() | arith.SubiOp():
            values[op.results[0]] = _slice_or_index(op, values)
        case func.ReturnOp() | memref.DeallocOp() | scf.YieldOp():
            pass
        case _:
            raise UnsupportedError("cannot run this op of the host program", op=op)


def _run_loop(
    module: ModuleOp, loaded: LoadedModule, op: scf.ForOp, values: dict[SSAValue, Array]
) -> None:
    for step in range(*(int(values[bound]) for bound in (op.lb, op.ub, op.step))):
        values[op.body.block.args[0]] = np.asarray(step)
        for inner in op.body.block.ops:
            _run_host_op(module, loaded, inner, values)


def _slice_or_index(
    op: loop.SliceOp | arith.ConstantOp | arith.SubiOp, values: dict[SSAValue, Array]
) -> Array:
    match op:
        case loop.SliceOp():
            return values[op.source][int(values[op.index])]
        case arith.SubiOp():
            return values[op.lhs] - values[op.rhs]
        case _:
            assert isinstance(op.value, IntegerAttr)
            return np.asarray(op.value.value.data)


def _call(loaded: LoadedModule, name: str, arguments: Sequence[Array]) -> list[Array]:
    function = loaded.function(name)
    values = [
        array if isinstance(type_, MemRefType) else array.item()
        for array, type_ in zip(arguments, function.inputs, strict=True)
    ]
    result = function(*values)
    return [] if result is None else [np.asarray(result)]


def _new_array(type_: Attribute) -> Array:
    shape, dtype = _array_type(type_)
    # What is read before it is written shall show.
    return np.full(shape, 1 if dtype.kind in "iub" else np.nan).astype(dtype)


def _array_type(type_: Attribute) -> tuple[tuple[int, ...], np.dtype[Any]]:
    assert isa(type_, MemRefType)
    return tuple(type_.get_shape()), np.dtype(numpy_dtype(type_.element_type))
