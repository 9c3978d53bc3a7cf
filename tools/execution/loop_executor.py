"""Execution of loop-level functions in this process, by their plain translation.

Tests use it, and ops with a Python meaning, which native code calls.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Block, Operation
from xdsl.utils.hints import isa

from tcopt.backends.llvm.jit_link import link_objects
from tcopt.backends.llvm.stop_flag import StopFlag
from tcopt.dialects import loop
from tcopt.dialects.graph.core.donation import in_place_results, names_in
from tcopt.dialects.size import extents_of, size_arguments
from tcopt.interpreters.host_calls import host_call, run_host_call, strings_of
from tcopt.interpreters.plain_loop import PlainFunction, translate
from tcopt.interpreters.plain_meanings import run_meaning
from tcopt.support.arithmetic.sizes import evaluate
from tcopt.support.data.dtypes import numpy_dtype
from tcopt.support.errors import InputError
from tcopt.tools.execution.host_program import HostProgram, array_type, unwritten
from tcopt.tools.execution.native_process import CANARY, NativeFault
from tcopt.tools.execution.plain_objects import plain_object

Array = NDArray[Any]

_MEANING = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class PlainCode:
    """Machine code of a plain translation in this process."""

    def __init__(self, plain: PlainFunction):
        self.plain = plain
        self._stop = StopFlag()
        self._errors: list[Exception] = []
        self._callbacks = {
            name: _MEANING(partial(self._meaning, op)) for name, op in plain.meanings.items()
        }
        self._code = link_objects(
            [plain_object(plain.text, 0)],
            plain.externals,
            ["plain"],
            self._stop.address,
            {name: _address(function) for name, function in self._callbacks.items()},
        )

    def __call__(self, buffers: Sequence[Array]) -> list[Array]:
        """Run the function on contiguous arrays, in place; return the values of its stages.

        Raises:
            NativeFault: an index is out of bounds, or parallel iterations race.
        """
        stages = stage_arrays(self.plain)
        scratch, detail = np.zeros(self.plain.scratch_bytes + 64, np.uint8), np.zeros(1, np.int64)
        start = -scratch.ctypes.data % 64
        arrays = [*buffers, *stages, scratch[start:], detail]
        types = [ctypes.c_void_p] * len(arrays)
        run = ctypes.CFUNCTYPE(ctypes.c_int64, *types)(self._code["plain"])
        status = run(*(array.ctypes.data for array in arrays))
        if self._errors:
            raise self._errors.pop()
        if status:
            raise fault_of(self.plain, status, int(detail[0]))
        return stages

    def _meaning(self, op: Operation, address: int) -> None:
        if self._errors:
            return
        try:
            run_meaning(op, address)
        except Exception as error:  # An exception must not cross native code.
            self._errors.append(error)


def stage_arrays(plain: PlainFunction) -> list[Array]:
    """Return an array for the values of each stage, filled with bytes that mark missing values."""
    arrays: list[Array] = []
    for stage in plain.stages:
        dtype = numpy_dtype(stage.element)
        array = np.full(int(np.prod(stage.shape)) * dtype.itemsize, CANARY, np.uint8)
        arrays.append(array.view(dtype).reshape(stage.shape))
    return arrays


def fault_of(plain: PlainFunction, status: int, detail: int) -> NativeFault:
    """Return the error for a run that ended early."""
    return NativeFault(f"{plain.faults[status - 1]} {detail}")


def _address(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


def run_func(function: loop.FuncOp, arrays: Sequence[Array], *, order: int = 0) -> list[Array]:
    """Run one function, which writes to its arrays in place.

    Args:
        function: the function.
        arrays: one array for each argument, of its shape and dtype; an i64 for a size.
        order: the order in which parallel iterations run, a seed.
    Returns:
        The same arrays.
    Raises:
        InputError: a wrong number of arrays, or a wrong shape or dtype.
        NativeFault: an access is out of bounds, or two parallel iterations race.
        UnsupportedError: an op cannot be translated.
    """
    _check(function, arrays)
    code = PlainCode(translate(function, seed=order))
    # An array that is given twice is one buffer.
    buffers = {id(array): np.ascontiguousarray(array) for array in arrays}
    code([buffers[id(array)] for array in arrays])
    for array in arrays:
        if buffers[id(array)] is not array and array.flags.writeable:
            array[...] = buffers[id(array)].reshape(array.shape)
    return list(arrays)


def _check(function: loop.FuncOp, arrays: Sequence[Array]) -> None:
    arguments = function.body.block.args
    if len(arrays) != len(arguments):
        raise InputError(f"{len(arrays)} arrays for {len(arguments)} arguments", op=function)
    names = list(size_arguments(function))
    buffers = len(arguments) - len(names)
    sizes = {n: int(a.item()) for n, a in zip(names, arrays[buffers:], strict=True)}
    for array, argument in zip(arrays[:buffers], arguments[:buffers], strict=True):
        _, dtype = array_type(argument.type)
        shape = tuple(evaluate(extent, sizes) for extent in extents_of(argument.type))
        if array.shape != shape:
            raise InputError(f"array of shape {array.shape} given for {argument.type}")
        if array.dtype.itemsize != dtype.itemsize:
            raise InputError(f"array of {array.dtype} given for {argument.type}")


def run_module(module: ModuleOp, inputs: Sequence[Array], *, order: int = 0) -> list[Array]:
    """Run @main, or the only function of a module at the loop level.

    Args:
        inputs: the inputs, or inputs and outputs, which are then written in place.
        order: as in `run_func`.
    Returns:
        The outputs: as many trailing arguments as `graph.outputs` has names, or one.
    Raises:
        InputError: no function to run, or arguments that do not match.
    """
    found = [op for op in module.ops if isinstance(op, loop.FuncOp)]
    functions = {op.sym_name.data: op for op in found}
    mains = [op for op in module.ops if isinstance(op, func.FuncOp) and op.sym_name.data == "main"]

    def call(op: Operation, name: str, arrays: list[Array]) -> None:
        if (declared := host_call(module, name)) is not None:
            run_host_call(declared, arrays)
        elif name in functions:
            run_func(functions[name], arrays, order=order)
        else:
            raise InputError(f"no loop.func named @{name}", op=op)

    if mains:
        arrays = _complete(mains[0].body.block, inputs)
        with strings_of(module):
            HostProgram(module, call).run(mains[0], arrays)
    elif len(found) == 1:
        arrays = _complete(found[0].body.block, inputs)
        run_func(found[0], arrays, order=order)
    else:
        raise InputError("the module has neither @main nor a single function to run")
    first = len(arrays) - (len(names_in(module, "graph.outputs")) or 1)
    in_place = in_place_results(module)
    return [arrays[in_place.get(n - first, n)] for n in range(first, len(arrays))]


def _complete(block: Block, inputs: Sequence[Array]) -> list[Array]:
    """Append new arrays for the remaining arguments."""
    if len(inputs) > len(block.args):
        raise InputError(f"{len(inputs)} arrays for {len(block.args)} arguments")
    rest = (argument.type for argument in block.args[len(inputs) :])
    return [*inputs, *(unwritten(*array_type(type_)) for type_ in rest if isa(type_, MemRefType))]
