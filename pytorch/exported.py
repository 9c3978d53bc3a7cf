"""Compilation of an exported program of PyTorch.

program = torch.export.export(module, (x,))
compiled = tcopt.torch.compile(program)
y = compiled(x)
"""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from tcopt.compiler import compile as compile_model
from tcopt.runtime.model import Model
from tcopt.support.arithmetic.size_ranges import GivenSize
from tcopt.support.errors import InputError, UnsupportedError
from tcopt.torch.tensors import feed, tensor_of
from tcopt.torch.translation import OverwritesState, Translated, translate


def compile(
    program: ExportedProgram, *, dims: Mapping[str, GivenSize] | None = None, **options: Any
) -> CompiledProgram:
    """Compile an exported program of PyTorch.

    Parameters and buffers are constants of the compiled program. Dynamic dimensions with an upper
    bound become sizes with that range; others are compiled when they are met, see docs/sizes.md.

    Args:
        program: the result of `torch.export.export`, of a module in evaluation mode.
        dims: ranges of dynamic dimensions by the names that the program gives them, in place of its
            own.
        options: as of `tcopt.compile`.
    Raises:
        UnsupportedError: PyTorch cannot export an operator to ONNX, tcopt does not support it, or
            the program overwrites parameters or buffers, as in training mode.
        TcoptError: as `tcopt.compile`.
    """
    try:
        translated = translate(program)
    except OverwritesState as error:
        raise UnsupportedError(
            f"the program overwrites {error}",
            hint="export it after model.eval(), or return the new values as results",
        ) from error
    return CompiledProgram(program, translated, {**translated.dims, **(dims or {})}, options)


class CompiledProgram:
    """A compiled PyTorch program, called with the arguments of the module that was exported.

    Tensors are read in place, and results share the memory that the program wrote. Arguments that
    the program overwrites are updated.

    Attributes:
        model: the compiled model, for `save`, `profile` and `explain`.
    """

    def __init__(
        self,
        program: ExportedProgram,
        translated: Translated,
        dims: Mapping[str, GivenSize],
        options: Mapping[str, Any],
    ):
        self.model: Model = compile_model(translated.model, dims=dims, **options)
        self._in_spec = program.call_spec.in_spec
        self._out_spec = program.call_spec.out_spec
        self._inputs = translated.inputs
        self._updated = [translated.arguments.index(name) for name in translated.updated]
        self._results = translated.results

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program.

        Raises:
            InputError: the structure of the arguments differs from the exported program's, or a
                tensor requires a gradient, has another type, or a shape outside of the ranges.
        """
        # The order of keyword arguments is part of the structure.
        order = self._in_spec.child(1).context
        if set(order) == set(kwargs):
            kwargs = {name: kwargs[name] for name in order}
        flat, spec = pytree.tree_flatten((args, kwargs))
        if spec != self._in_spec:
            raise InputError(
                "the structure of the arguments differs from the exported program's",
                hint=f"it was exported with {self._in_spec}",
            )
        return pytree.tree_unflatten(self.run(flat), self._out_spec)

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        """Run the program on its flat list of arguments, and return the flat list of results."""
        feeds = {
            name: feed(name, argument) if isinstance(argument, torch.Tensor) else argument
            for name, argument in zip(self._inputs, arguments, strict=True)
            if name is not None
        }
        outputs = list(map(tensor_of, self.model.run(feeds)))
        for place, value in zip(self._updated, outputs, strict=False):
            arguments[place].copy_(value)
        found = iter(outputs[len(self._updated) :])
        return [result.of(found) for result in self._results]
