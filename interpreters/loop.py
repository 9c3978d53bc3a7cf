"""Interpreter of the loop dialect: each `loop.func` is translated to Python source and executed.

Loops of every kind run sequentially; with `shuffle_seed`, iterations of parallel loops run in a
random order instead, which reveals a wrong `parallel`. Floats are computed in double precision and
rounded when they are stored. New buffers hold NaN. An access that the loops' ranges do not prove to
be in bounds is checked at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    UnrealizedConversionCastOp,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.interpreters.host_calls import host_call, run_host_call, strings_of
from tcopt.interpreters.loop_runtime import to_buffer, unwritten, write_back
from tcopt.interpreters.loop_translation import Translator
from tcopt.support.data.dtypes import numpy_dtype
from tcopt.support.errors import InputError, UnsupportedError

Array = NDArray[Any]


def run_func(
    function: loop.FuncOp, arrays: Sequence[Array], *, shuffle_seed: int | None = None
) -> list[Array]:
    """Run one function, which writes to its arrays in place.

    Args:
        function: the function.
        arrays: one array for each argument, of its shape and dtype.
        shuffle_seed: run parallel iterations in a random order with this seed.
    Returns:
        The same arrays.
    Raises:
        InputError: a wrong number of arrays, a wrong shape or an access out of bounds.
        UnsupportedError: an op that the interpreter does not know.
    """
    return _Compiled(function, shuffle_seed)(arrays)


def run_module(
    module: ModuleOp, inputs: Sequence[Array], *, shuffle_seed: int | None = None
) -> list[Array]:
    """Run @main, or the only function of the module.

    Args:
        module: a module at the loop level.
        inputs: the inputs, or inputs and outputs, which are then written in place.
        shuffle_seed: as in `run_func`.
    Returns:
        The outputs: as many trailing arguments as `graph.outputs` has names, or one.
    Raises:
        InputError: no function to run, or arguments that do not match.
    """
    functions = {
        op.sym_name.data: _Compiled(op, shuffle_seed)
        for op in module.ops
        if isinstance(op, loop.FuncOp)
    }
    main = next(
        (op for op in module.ops if isinstance(op, func.FuncOp) and op.sym_name.data == "main"),
        None,
    )
    if main is None:
        if len(functions) != 1:
            raise InputError("the module has neither @main nor a single function to run")
        (only,) = functions.values()
        arrays = _complete(only.function.body.block, inputs)
        only(arrays)
    else:
        arrays = _complete(main.body.block, inputs)
        with strings_of(module):
            _Host(module, functions).run(main.body.block, arrays)
    outputs = module.attributes.get("graph.outputs")
    return arrays[-len(outputs) if isinstance(outputs, ArrayAttr) and len(outputs) else -1 :]


def _complete(block: Block, inputs: Sequence[Array]) -> list[Array]:
    """Append new arrays for the remaining arguments."""
    if len(inputs) > len(block.args):
        raise InputError(f"{len(inputs)} arrays for {len(block.args)} arguments")
    return [*inputs, *(_new_array(arg.type) for arg in block.args[len(inputs) :])]


def _new_array(type_: Attribute) -> Array:
    assert isa(type_, MemRefType)
    array = np.empty(type_.get_shape(), numpy_dtype(type_.get_element_type()))
    write_back(unwritten(array.dtype, array.size)[: array.size], array)
    return array


class _Host:
    """Runs the ops of @main, whose buffers are arrays."""

    def __init__(self, module: ModuleOp, functions: dict[str, _Compiled]):
        self.module = module
        self.functions = functions
        self.values: dict[SSAValue, Any] = {}

    def run(self, block: Block, arrays: Sequence[Array]) -> None:
        self.values.update(zip(block.args, arrays, strict=True))
        for op in block.ops:
            self._run_op(op)

    def _view(self, op: memref.ViewOp) -> None:
        """Evaluate a view at an offset in a block of bytes."""
        type_ = op.result.type
        assert isa(type_, MemRefType)
        dtype = numpy_dtype(type_.get_element_type())
        start = self.values[op.byte_shift]
        size = type_.element_count() * dtype.itemsize
        flat = self.values[op.source][start : start + size]
        self.values[op.result] = flat.view(dtype).reshape(type_.get_shape())

    def _cast(self, op: UnrealizedConversionCastOp) -> None:
        """Evaluate a cast between signed and unsigned elements, which keeps the bytes."""
        (source,), (result,) = op.inputs, op.outputs
        assert isa(result.type, MemRefType)
        dtype = numpy_dtype(result.type.get_element_type())
        self.values[result] = self.values[source].view(dtype)

    def _for(self, op: scf.ForOp) -> None:
        """Run a time loop, whose state is all in buffers."""
        bounds = [self.values[bound] for bound in (op.lb, op.ub, op.step)]
        for position in range(*bounds):
            self.values[op.body.block.args[0]] = position
            for inner in op.body.block.ops:
                self._run_op(inner)

    def _slice_or_index(self, op: loop.SliceOp | arith.ConstantOp | arith.SubiOp) -> Any:
        """Return the result of an op on indices, or the view selected by an index."""
        match op:
            case loop.SliceOp():
                return self.values[op.source][self.values[op.index]]
            case arith.SubiOp():
                return self.values[op.lhs] - self.values[op.rhs]
            case _:
                assert isinstance(op.value, IntegerAttr)
                return op.value.value.data

    def _run_op(self, op: Operation) -> None:
        values = self.values
        match op:
            case loop.CallOp():
                self._call(op)
            case loop.WeightOp():
                values[op.result] = self._weight(op)
            case memref.AllocOp():
                values[op.memref] = _new_array(op.memref.type)
            case memref.ReinterpretCastOp():
                assert isa(op.result.type, MemRefType)
                source = values[op.source].reshape(-1)
                offset, size = op.static_offsets.get_values()[0], op.result.type.element_count()
                flat = source[offset : offset + size]
                values[op.result] = flat.reshape(op.result.type.get_shape())
            case memref.ViewOp():
                self._view(op)
            case UnrealizedConversionCastOp():
                self._cast(op)
            case memref.CopyOp():
                np.copyto(values[op.destination], values[op.source])
            case scf.ForOp():
                self._for(op)
            case loop.SliceOp() | arith.ConstantOp() | arith.SubiOp():
                values[op.results[0]] = self._slice_or_index(op)
            case func.ReturnOp() | memref.DeallocOp() | scf.YieldOp():
                pass
            case _:
                raise UnsupportedError("the loop interpreter does not run this op", op=op)

    def _call(self, op: loop.CallOp) -> None:
        name = op.callee.string_value()
        arrays = [self.values[argument] for argument in op.arguments]
        declared = host_call(self.module, name)
        if declared is not None:
            run_host_call(declared, arrays)
            return
        callee = self.functions.get(name)
        if callee is None:
            raise InputError(f"no loop.func named @{name}", op=op)
        callee(arrays)

    def _weight(self, op: loop.WeightOp) -> Array:
        from tcopt.dialects.graph.weights import weights_of

        type_ = op.result.type
        assert isa(type_, MemRefType)
        store = weights_of(self.module)
        if store is None:
            raise InputError("the module's weights are not available", op=op)
        return np.ascontiguousarray(store[op.weight.data]).reshape(type_.get_shape())


class _Compiled:
    """A function, translated at its first call."""

    def __init__(self, function: loop.FuncOp, shuffle_seed: int | None):
        self.function = function
        self.shuffle_seed = shuffle_seed
        self._code: Callable[..., None] | None = None

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        arguments = self.function.body.block.args
        if len(arrays) != len(arguments):
            raise InputError(
                f"{len(arrays)} arrays for {len(arguments)} arguments", op=self.function
            )
        for array, argument in zip(arrays, arguments, strict=True):
            type_ = argument.type
            assert isa(type_, MemRefType)
            if tuple(array.shape) != type_.get_shape():
                raise InputError(f"array of shape {array.shape} given for {type_}")
        if self._code is None:
            self._code = Translator(self.shuffle_seed).translate(self.function)
        # An array that is given twice is one buffer.
        buffers = {id(array): to_buffer(array) for array in arrays}
        self._code(*(buffers[id(array)] for array in arrays))
        for array in arrays:
            if array.flags.writeable:
                write_back(buffers[id(array)], array)
        return list(arrays)
