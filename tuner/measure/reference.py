"""Reference outputs of a task, evaluated at the te level with f64 instead of f32.

No pass or rule below that level is involved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.arith import BitcastOp
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    Float32Type,
    Float64Type,
    FloatAttr,
)
from xdsl.ir import Attribute, ParametrizedAttribute

from tcopt.compiler.passes import shared_context
from tcopt.dialects import te
from tcopt.dialects.float_precision import precision_of, rounds
from tcopt.interpreters.te import run_func
from tcopt.support.data.dtypes import named_dtype
from tcopt.support.errors import InputError
from tcopt.support.syntax.parsing import TextParser
from tcopt.tuner.arguments import OUTPUT, Argument
from tcopt.tuner.measure.values import SETS, make_values

Array = NDArray[Any]

_MOST_BYTES = 1 << 28
"""Larger outputs are stored in their own type instead of f64."""


@dataclass(frozen=True)
class Reference:
    """Reference results of a task.

    Attributes:
        expected: outputs for each set of inputs.
        precision: the rounding error of the least precise float type in the task.
        rounds: whether it rounds to integers.
    """

    expected: tuple[tuple[Array, ...], ...]
    precision: float
    rounds: bool


def reference_of(text: str, arguments: Sequence[Argument]) -> Reference:
    """Compute the reference results of a task.

    Args:
        text: of the task; `arguments`: inputs, weights and outputs.
    """
    module = TextParser(shared_context(), text).parse_module()
    (function,) = module.ops
    if not isinstance(function, te.FuncOp):
        raise InputError("the text of a task must be a module with one te.func")
    precision, steps = precision_of(function), rounds(function)
    widened = _widen(function)
    inputs = [(n, a) for n, a in enumerate(arguments) if a.role != OUTPUT]
    outputs = [a for a in arguments if a.role == OUTPUT]
    sets: list[tuple[Array, ...]] = []
    for kind in range(SETS):
        given = [make_values(a.shape, a.dtype, number, kind) for number, a in inputs]
        if widened:
            given = [a.astype(np.float64) if a.dtype == np.float32 else a for a in given]
        with np.errstate(all="ignore"):
            found = run_func(function, given)
        sets.append(tuple(_kept(a, spec) for a, spec in zip(found, outputs, strict=True)))
    return Reference(tuple(sets), precision, steps)


def _kept(array: Array, spec: Argument) -> Array:
    if array.nbytes > _MOST_BYTES or array.dtype.kind != "f":
        return array.astype(named_dtype(spec.dtype))
    return array


def _widen(function: te.FuncOp) -> bool:
    """Replace f32 by f64 in a function; return False without a change if it uses bits of floats."""
    if any(isinstance(op, BitcastOp) for op in function.walk()):
        return False
    for op in function.walk():
        for values in (op.properties, op.attributes):
            values.update({name: _widened(value) for name, value in values.items()})
        for result in op.results:
            result._type = _widened(result.type)  # pyright: ignore
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    argument._type = _widened(argument.type)  # pyright: ignore
    return True


def _widened(attribute: Attribute) -> Any:
    match attribute:
        case Float32Type():
            return Float64Type()
        case FloatAttr() if isinstance(attribute.type, Float32Type):
            return FloatAttr(attribute.value.data, Float64Type())
        case DenseArrayBase() if isinstance(attribute.elt_type, Float32Type):
            array: Any = attribute
            return DenseArrayBase.from_list(Float64Type(), list(array.get_values()))
        case DenseIntOrFPElementsAttr():
            dense: Any = attribute
            if not isinstance(dense.get_element_type(), Float32Type):
                return dense
            make: Any = DenseIntOrFPElementsAttr
            return make.from_list(_widened(dense.type), list(dense.get_values()))
        case ArrayAttr():
            return ArrayAttr([_widened(each) for each in attribute.data])
        case DictionaryAttr():
            return DictionaryAttr({n: _widened(each) for n, each in attribute.data.items()})
        case ParametrizedAttribute():
            parameters = attribute.parameters
            new = [_widened(each) for each in parameters]
            same = all(a is b for a, b in zip(new, parameters, strict=True))
            return attribute if same else type(attribute).new(new)
        case _:
            return attribute
