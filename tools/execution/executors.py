"""Executable parts of a module: its level, its functions and their arguments.

A function either returns its results (graph and te levels) or writes them to buffer arguments (loop
and kernel levels).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ContainerType,
    FunctionType,
    MemRefType,
    ModuleOp,
    ShapedType,
    StringAttr,
)
from xdsl.ir import Attribute, Operation

from tcopt.dialects.graph.core.donation import names_in
from tcopt.runtime.specs import TensorSpec
from tcopt.support.data.dtypes import numpy_dtype

Array = NDArray[Any]

WEIGHTS = "tcopt.weights"
"""Attribute of an @main that takes one block of weights and a workspace."""


@dataclass(frozen=True)
class FunctionSignature:
    """A function's arguments by name, and whether results are written to buffer arguments."""

    name: str
    arguments: tuple[TensorSpec, ...]
    by_reference: bool


def level_of(module: ModuleOp) -> str:
    """Return the level of a module: `graph`, `te`, `loop` or `kernel`, by its lowest dialect."""
    names = {op.name for op in module.walk()} - {"loop.weight", "loop.slice"}
    dialects = {name.split(".")[0] for name in names}
    for level in ("loop", "te", "graph"):
        if level in dialects:
            return level
    return "kernel"


def functions(module: ModuleOp) -> dict[str, Operation]:
    """Return the functions with a body at the top level of a module, by name."""
    found: dict[str, Operation] = {}
    for op in module.ops:
        symbol = op.properties.get("sym_name")
        is_function = isinstance(op.properties.get("function_type"), FunctionType)
        if isinstance(symbol, StringAttr) and is_function and op.regions and op.regions[0].blocks:
            found[symbol.data] = op
    return found


def signature(func: Operation) -> FunctionSignature:
    """Return the arguments of a function.

    Raises:
        UnsupportedError: an argument has a type with no numpy counterpart.
    """
    symbol = func.properties["sym_name"]
    type_ = func.properties["function_type"]
    assert isinstance(symbol, StringAttr) and isinstance(type_, FunctionType)
    specs: list[TensorSpec] = []
    for index, argument in enumerate(func.regions[0].blocks[0].args):
        shape, dtype = _array_type(argument.type)
        specs.append(TensorSpec(argument.name_hint or str(index), shape, dtype))
    has_buffers = any(isinstance(argument, MemRefType) for argument in type_.inputs.data)
    return FunctionSignature(symbol.data, tuple(specs), has_buffers and not type_.outputs.data)


def inputs_of(module: ModuleOp, func: Operation) -> tuple[TensorSpec, ...]:
    """Return the inputs of a function, with the model's names if the module has them.

    Result buffers of @main are excluded; their number is the length of the module's attribute
    `graph.outputs`. Without that attribute every argument is an input, except the weights and the
    workspace of a planned @main.
    """
    sig = signature(func)
    if sig.name != "main":
        return sig.arguments
    names, outputs = input_names(module), output_names(module)
    specs = sig.arguments
    if WEIGHTS in func.attributes:
        specs = specs[:-2]
        if outputs:
            specs = specs[: -len(outputs)]
    elif sig.by_reference and outputs:
        specs = specs[: len(names)] if names else specs[: -len(outputs)]
    if len(names) > len(specs):
        return specs
    named = (spec._replace(name=name) for name, spec in zip(names, specs, strict=False))
    # The key of random operators follows the model's inputs.
    return (*named, *specs[len(names) :])


def outputs_of(module: ModuleOp) -> int:
    """Return the number of @main's results; 0 if the module does not declare it."""
    return len(output_names(module))


def input_names(module: ModuleOp) -> list[str]:
    """Return the names of the model's inputs, if the module has them."""
    return names_in(module, "graph.inputs")


def output_names(module: ModuleOp) -> list[str]:
    """Return the names of the model's outputs, if the module has them."""
    return names_in(module, "graph.outputs")


def _array_type(type_: Attribute) -> tuple[tuple[int | None, ...], np.dtype[Any]]:
    shape: tuple[int | None, ...] = ()
    if isinstance(type_, ShapedType):
        shape = tuple(None if size == DYNAMIC_INDEX else size for size in type_.get_shape())
    element = type_.get_element_type() if isinstance(type_, ContainerType) else type_
    return shape, numpy_dtype(element)
