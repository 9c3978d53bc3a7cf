"""Translation of an exported program of PyTorch to ONNX, by PyTorch's exporter."""

# pyright: reportMissingImports=false

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import onnx
import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ArgumentSpec,
    ConstantArgument,
    InputKind,
    OutputKind,
    OutputSpec,
    SymIntArgument,
)
from torch.utils._pytree import tree_structure

from tcopt.support.errors import UnsupportedError
from tcopt.torch.decompositions import decomposed

OPSET = 23
"""Version of the ONNX operators: the first one with attention as an operator."""

_LARGEST = 2**40
"""Upper bounds from here on are PyTorch's ways to write that there is none."""


class Result(NamedTuple):
    """One result of a program.

    Attributes:
        is_constant: whether it is `value` instead of an output of the model.
        is_integer: whether the output is an integer of Python.
    """

    is_constant: bool
    is_integer: bool
    value: Any

    def of(self, outputs: Iterator[torch.Tensor]) -> Any:
        """Return the result, which is taken from the outputs if it is not a constant."""
        if self.is_constant:
            return self.value
        found = next(outputs)
        return found.item() if self.is_integer else found


@dataclass(frozen=True)
class Translated:
    """An exported program as ONNX.

    Attributes:
        model: the ONNX model, whose outputs are the new values of `updated`, then the results.
        arguments: names of the arguments of the program.
        inputs: name of the input of the model for each argument; None if it has none.
        updated: names of the arguments that the program overwrites, in the order of the outputs.
        results: results of the program.
        dims: ranges of the open dimensions that have an upper bound.
    """

    model: onnx.ModelProto
    arguments: Sequence[str]
    inputs: Sequence[str | None]
    updated: Sequence[str]
    results: Sequence[Result]
    dims: Mapping[str, tuple[int, int]]


class OverwritesState(Exception):
    """A program overwrites parameters or buffers.

    Args:
        names: their names.
    """

    def __init__(self, names: Sequence[str]):
        self.names = list(names)
        super().__init__(", ".join(names))


def translate(program: ExportedProgram) -> Translated:
    """Translate an exported program.

    Raises:
        OverwritesState: it overwrites parameters or buffers.
        UnsupportedError: PyTorch has no ONNX form of an operator.
    """
    with _quiet():
        program = decomposed(program)
    specs = program.graph_signature.output_specs
    given = [spec.arg for spec in specs if spec.kind is OutputKind.USER_OUTPUT]
    updated: list[str] = []
    if _overwrites(program) or any(isinstance(arg, ConstantArgument) for arg in given):
        program, updated = _functional(program)
    with _quiet():
        try:
            exported = torch.onnx.export(
                program, dynamo=True, optimize=False, opset_version=OPSET, verbose=False
            )
        except torch.onnx.errors.OnnxExporterError as error:
            raise UnsupportedError(
                f"PyTorch cannot export the program to ONNX: {_cause(error)}",
                hint="install the newest onnxscript, or leave the operator outside of the model",
            ) from error
    assert exported is not None
    model = exported.model_proto
    known = {value.name for value in model.graph.input}
    specs = program.graph_signature.input_specs
    arguments = [spec.arg.name for spec in specs if spec.kind is InputKind.USER_INPUT]
    inputs = [name if name in known else None for name in arguments]
    results = list(map(_result, given))
    return Translated(model, arguments, inputs, updated, results, _dims(program))


def _result(arg: ArgumentSpec) -> Result:
    if isinstance(arg, ConstantArgument):
        return Result(True, False, arg.value)
    return Result(False, isinstance(arg, SymIntArgument), None)


def _dims(program: ExportedProgram) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for symbol, range_ in program.range_constraints.items():
        # Infinity is one of several objects that cannot be converted to int.
        if bool(range_.upper < _LARGEST):
            found[str(symbol)] = int(range_.lower), int(range_.upper)
    return found


def _overwrites(program: ExportedProgram) -> bool:
    """Whether an operator of a program overwrites an operand."""
    return any(
        isinstance(node.target, OpOverload) and node.target._schema.is_mutable
        for node in program.graph.nodes
    )


def _functional(program: ExportedProgram) -> tuple[ExportedProgram, list[str]]:
    """Return a program that returns new values of the arguments that it overwrites.

    They precede the results. Results that are constants are omitted, as ONNX has no form of them.

    Returns:
        The program, and the names of the arguments.
    Raises:
        OverwritesState: it overwrites parameters or buffers.
    """
    with _quiet():
        program = program.run_decompositions({})
    signature = program.graph_signature
    specs = signature.output_specs
    arguments = [s for s in specs if s.kind is OutputKind.USER_INPUT_MUTATION]
    results = [s for s in specs if s.kind is OutputKind.USER_OUTPUT]
    if state := [s for s in specs if s not in arguments and s not in results]:
        raise OverwritesState([str(spec.target) for spec in state])
    node = program.graph.output_node()
    kept = [not isinstance(spec.arg, ConstantArgument) for spec in specs]
    node.args = (tuple(a for a, keep in zip(node.args[0], kept, strict=True) if keep),)
    signature.output_specs = [
        OutputSpec(OutputKind.USER_OUTPUT, spec.arg, None)
        for spec, keep in zip(specs, kept, strict=True)
        if keep
    ]
    entry = program.module_call_graph[0]
    assert entry.signature is not None
    structure = tree_structure(tuple(range(len(signature.output_specs))))
    entry.signature = replace(entry.signature, out_spec=structure)
    program.graph_module.recompile()
    return program, [str(spec.target) for spec in arguments]


def _cause(error: BaseException) -> str:
    """Return the message of the first cause of an error."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).partition("\n")[0]


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress notes of the exporter about itself."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
