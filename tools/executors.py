"""How a module at each level is run: one small interface, loaded when needed.

A function either returns its results (graph and te levels) or writes them to buffers it
is given (loop and kernel levels). Executors hide that: inputs in, results out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    ArrayAttr,
    ContainerType,
    FunctionType,
    MemRefType,
    ModuleOp,
    ShapedType,
    StringAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from tcopt.support.dtypes import numpy_dtype
from tcopt.tools.inputs import InputSpec

Array = NDArray[Any]

# A planned @main takes the weights and the workspace after its results.
_PLANNED = 2
_WEIGHTS = "tcopt.weights"
# What only a host program that is not planned yet holds.
_HOST_OPS = ("loop.weight", "memref.alloc", "memref.reinterpret_cast")


class RunModule(Protocol):
    """Runs @main, or the only function of a module, on arrays."""

    def __call__(self, module: ModuleOp, inputs: Sequence[Array], /) -> list[Array]: ...


@dataclass(frozen=True)
class Signature:
    """A function's arguments by name, and how many of them at the end are results."""

    name: str
    arguments: tuple[InputSpec, ...]
    by_reference: bool


def level_of(module: ModuleOp) -> str:
    """The level a module is at: `graph`, `te`, `loop` or `kernel`, by its lowest dialect."""
    names = {op.name for op in module.walk()} - {"loop.weight", "loop.slice"}
    dialects = {name.split(".")[0] for name in names}
    for level in ("loop", "te", "graph"):
        if level in dialects:
            return level
    return "kernel"


def functions(module: ModuleOp) -> dict[str, Operation]:
    """The functions with a body at the top of a module, by name."""
    found: dict[str, Operation] = {}
    for op in module.ops:
        symbol = op.properties.get("sym_name")
        is_function = isinstance(op.properties.get("function_type"), FunctionType)
        if isinstance(symbol, StringAttr) and is_function and op.regions and op.regions[0].blocks:
            found[symbol.data] = op
    return found


def signature(func: Operation) -> Signature:
    """The arguments of a function.

    Raises:
        UnsupportedError: an argument has a type with no numpy counterpart.
    """
    symbol = func.properties["sym_name"]
    type_ = func.properties["function_type"]
    assert isinstance(symbol, StringAttr) and isinstance(type_, FunctionType)
    specs: list[InputSpec] = []
    for index, argument in enumerate(func.regions[0].blocks[0].args):
        shape, dtype = _array_type(argument.type)
        specs.append(InputSpec(argument.name_hint or str(index), shape, dtype))
    has_buffers = any(isinstance(argument, MemRefType) for argument in type_.inputs.data)
    return Signature(symbol.data, tuple(specs), has_buffers and not type_.outputs.data)


def inputs_of(module: ModuleOp, func: Operation) -> tuple[InputSpec, ...]:
    """What a function must be given, named as in the model where the module says so.

    For @main by reference the results are not among them; how many there are is the length
    of the module's attribute `graph.outputs`. Without it every argument is an input.
    """
    sig = signature(func)
    if sig.name != "main":
        return sig.arguments
    names = _names(module, "graph.inputs")
    outputs = _names(module, "graph.outputs")
    specs = sig.arguments
    if sig.by_reference and outputs:
        specs = specs[: len(names)] if names else specs[: -len(outputs)]
    if len(names) != len(specs):
        return specs
    return tuple(
        InputSpec(name, spec.shape, spec.dtype) for name, spec in zip(names, specs, strict=True)
    )


def run(module: ModuleOp, func: Operation, inputs: Sequence[Array]) -> list[Array]:
    """Run @main, or the one function a module holds.

    Args:
        inputs: as many arrays as the function had inputs at the level the run began at.
            A function by reference with more arguments than that gets buffers for the rest,
            filled with NaN so that a result never written shows, and these are the results;
            one with exactly as many returns what all of them hold afterwards.
    """
    sig = signature(func)
    outputs = len(_names(module, "graph.outputs"))
    if not sig.by_reference:
        return [np.asarray(value) for value in _executor(module, func)(module, inputs)]
    if outputs and len(sig.arguments) == len(inputs) + outputs + _PLANNED:
        from tcopt.tools.kernel_executor import run_planned

        return run_planned(module, inputs)
    buffers = [np.array(value, copy=True) for value in inputs]
    results = [_unwritten(spec) for spec in sig.arguments[len(buffers) :]]
    _executor(module, func)(module, [*buffers, *results])
    if _WEIGHTS in func.attributes:
        results = results[:-_PLANNED]
    return results or buffers


def isolate(module: ModuleOp, func: Operation) -> ModuleOp:
    """A module of a copy of one function alone, with the attributes of the original."""
    return ModuleOp([func.clone()], dict(module.attributes))


def _names(module: ModuleOp, key: str) -> list[str]:
    attribute = module.attributes.get(key)
    if not isinstance(attribute, ArrayAttr):
        return []
    return [item.data for item in attribute if isinstance(item, StringAttr)]


def _executor(module: ModuleOp, func: Operation) -> RunModule:
    match level_of(module):
        case "graph":
            from tcopt.interpreters.graph import run_module
        case "te":
            from tcopt.interpreters.te import run_module
        case "loop":
            from tcopt.tools.loop_executor import run_module
        case _:
            return partial(_run_kernels, func)
    return run_module


def _run_kernels(func: Operation, module: ModuleOp, arrays: Sequence[Array], /) -> list[Array]:
    from tcopt.tools import kernel_executor

    if isinstance(func, FuncOp) and any(op.name in _HOST_OPS for op in func.body.block.ops):
        kernel_executor.run_host(module, func, arrays)
        return []
    return kernel_executor.run_function(module, signature(func).name, arrays)


def _array_type(type_: Attribute) -> tuple[tuple[int, ...], np.dtype[Any]]:
    shape: tuple[int, ...] = ()
    if isinstance(type_, ShapedType):
        shape = tuple(type_.get_shape())
    element = type_.get_element_type() if isinstance(type_, ContainerType) else type_
    return shape, numpy_dtype(element)


def _unwritten(spec: InputSpec) -> Array:
    shape = [size for size in spec.shape or () if isinstance(size, int)]
    fill = 1 if spec.dtype.kind in "iub" else np.nan
    return np.full(shape, fill).astype(spec.dtype)
