"""Interpreter of the graph dialect in numpy, op by op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tcopt.dialects.graph.control.group import GroupOp, YieldOp
from tcopt.dialects.graph.control.scan import ScanOp, run_scan
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import numpy_dtype, type_of
from tcopt.dialects.graph.core.weights import WeightStore, weights_of
from tcopt.interpreters.host_calls import strings_of
from tcopt.support.errors import InputError, UnsupportedError

Array = NDArray[Any]
Observer = Callable[[Operation, Sequence[Array]], None]


def run_module(
    module: ModuleOp,
    inputs: Sequence[Array] | Mapping[str, Array],
    *,
    weights: WeightStore | None = None,
    observe: Observer | None = None,
) -> list[Array]:
    """Run @main, or the only function, on `inputs`; return its results.

    Args:
        module: functions at the graph level.
        inputs: one array per argument, in order or by argument name.
        weights: the weight store, by default the one that the module names.
        observe: called with every graph op and its results.
    Raises:
        InputError: there is no function to run, an input does not match, or a weight is missing.
        UnsupportedError: the function has an op of another level.
    """
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}
    entry = functions.get("main")
    if entry is None and len(functions) == 1:
        (entry,) = functions.values()
    if entry is None:
        raise InputError("the module has no function @main")
    store = weights_of(module) if weights is None else weights
    with strings_of(module):
        return run_function(entry, inputs, weights=store, observe=observe)


def run_function(
    function: func.FuncOp,
    inputs: Sequence[Array] | Mapping[str, Array],
    *,
    weights: WeightStore | None = None,
    observe: Observer | None = None,
) -> list[Array]:
    """Run one function; arguments and errors as for `run_module`."""
    block = function.body.block
    values = _bind(block, inputs)
    runner = _Runner(values, weights, observe)
    return runner.run(block)


def _bind(block: Block, inputs: Sequence[Array] | Mapping[str, Array]) -> dict[SSAValue, Array]:
    if isinstance(inputs, Mapping):
        names = [argument.name_hint or f"arg{n}" for n, argument in enumerate(block.args)]
        missing = [name for name in names if name not in inputs]
        if missing:
            raise InputError(f"no input for {', '.join(missing)}")
        inputs = [inputs[name] for name in names]
    if len(inputs) != len(block.args):
        raise InputError(f"expected {len(block.args)} inputs, got {len(inputs)}")
    values: dict[SSAValue, Array] = {}
    for argument, array in zip(block.args, inputs, strict=True):
        type = type_of(argument)
        if np.shape(array) != type.get_shape():
            raise InputError(
                f"expected an input of shape {type.get_shape()}, got {np.shape(array)}",
                where=argument.name_hint,
            )
        values[argument] = np.asarray(array).astype(numpy_dtype(type.element_type), copy=False)
    return values


class _Runner:
    """Evaluates blocks; a value is dropped after its last use."""

    def __init__(
        self,
        values: dict[SSAValue, Array],
        weights: WeightStore | None,
        observe: Observer | None,
    ):
        self.values = values
        self.weights = weights
        self.observe = observe
        self.uses = {value: value.uses.get_length() for value in values}

    def run(self, block: Block) -> list[Array]:
        """Run a block; return the operands of its terminator."""
        for op in block.ops:
            if isinstance(op, func.ReturnOp | YieldOp):
                return [self.use(operand) for operand in op.operands]
            results = self.evaluate(op)
            for result, array in zip(op.results, results, strict=True):
                self.values[result] = array
                self.uses[result] = result.uses.get_length()
            if self.observe is not None:
                self.observe(op, results)
        raise InputError("the function does not return")

    def evaluate(self, op: Operation) -> Sequence[Array]:
        """Return the results of one op."""
        if isinstance(op, ConstantOp):
            return (constant_value(op, self.weights),)
        if isinstance(op, GraphOp):
            return op.evaluate(*(self.use(operand) for operand in op.operands))
        if isinstance(op, GroupOp):
            return self.run(op.body.block)
        if isinstance(op, ScanOp):
            return self.scan(op)
        raise UnsupportedError("cannot be run at the graph level", op=op)

    def scan(self, op: ScanOp) -> list[Array]:
        """Return the results of a scan, whose function runs once per step."""
        step = op.step
        if step is None:
            raise InputError(f"there is no function {op.body}", op=op)
        inputs = [self.use(value) for value in op.inputs]
        return run_scan(op, inputs, lambda arrays: run_function(step, arrays, weights=self.weights))

    def use(self, value: SSAValue) -> Array:
        """Return the array of a value, and drop it after its last use."""
        array = self.values[value]
        self.uses[value] -= 1
        if not self.uses[value]:
            del self.values[value]
        return array


def constant_value(op: ConstantOp, weights: WeightStore | None) -> Array:
    """Return the array of a constant.

    Raises:
        InputError: the weight is not in the store, or has another shape.
    """
    literal = op.literal_value
    if literal is not None:
        return literal
    name = op.weight_name
    if weights is None or name is None or name not in weights:
        raise InputError(f"weight @{name} is not in the module's weight store")
    array = weights[name]
    if array.shape != op.shape:
        raise InputError(f"weight @{name} has shape {array.shape}, declared {op.shape}")
    return array
