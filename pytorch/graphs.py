"""One graph of Dynamo as a compiled program, for given parameters."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.export import Dim
from torch.fx import GraphModule

from tcopt.support.errors import UnsupportedError
from tcopt.torch.exported import CompiledProgram
from tcopt.torch.translation import translate


@dataclass(frozen=True)
class Arguments:
    """Roles of a graph's arguments, by index.

    Attributes:
        names: names of all arguments.
        inputs: tensors that differ between calls.
        constants: parameters, buffers, and tensors that hold a number of Python.
        sizes: for each integer that is an extent: the indices of a tensor and of its dimension.
        dynamic: dynamic dimensions of each input.
    """

    names: Sequence[str]
    inputs: Sequence[int]
    constants: Sequence[int]
    sizes: Mapping[int, tuple[int, int]]
    dynamic: Mapping[int, Sequence[int]]

    @classmethod
    def of(cls, graph: GraphModule, examples: Sequence[Any]) -> Arguments:
        """Classify the arguments of a graph."""
        nodes = graph.graph.find_nodes(op="placeholder")
        inputs: list[int] = []
        constants: list[int] = []
        dynamic: dict[int, list[int]] = {}
        extents: dict[str, tuple[int, int]] = {}
        for place, (node, value) in enumerate(zip(nodes, examples, strict=True)):
            if not isinstance(value, torch.Tensor):
                continue
            if _is_constant(node, value):
                constants.append(place)
                continue
            inputs.append(place)
            shape = node.meta["example_value"].shape
            open_ = {d: str(n) for d, n in enumerate(shape) if isinstance(n, torch.SymInt)}
            dynamic[place] = [*open_]
            for dimension, size in open_.items():
                extents.setdefault(size, (place, dimension))
        sizes = {
            place: extents[str(node.meta["example_value"])]
            for place, node in enumerate(nodes)
            if str(node.meta.get("example_value")) in extents
        }
        others = set(range(len(nodes))) - {*inputs, *sizes}
        return cls([n.name for n in nodes], inputs, sorted(others), sizes, dynamic)

    def with_inputs(self, names: Iterable[str]) -> Arguments:
        """Return the arguments with some constants as inputs."""
        changed = [self.names.index(name) for name in names]
        inputs = sorted({*self.inputs, *changed})
        constants = [place for place in self.constants if place not in changed]
        return replace(self, inputs=inputs, constants=constants)


def _is_constant(node: torch.fx.Node, value: torch.Tensor) -> bool:
    """Whether an argument is a parameter or buffer of a module, or stands for a number."""
    if isinstance(value, nn.Parameter) or hasattr(value, "_dynamo_static_input_type"):
        return True
    argument = node.meta.get("grapharg")
    return bool(getattr(argument, "pass_arg_as_tensor", False))


class _Bound(nn.Module):
    """A graph with some of its arguments bound, as parameters and buffers."""

    def __init__(self, graph: GraphModule, arguments: Arguments, values: Sequence[Any]):
        super().__init__()
        self._run = graph.forward
        self._arguments = arguments
        self._others: dict[int, Any] = {}
        for place in arguments.constants:
            value = values[place]
            if not isinstance(value, torch.Tensor):
                self._others[place] = value
            elif isinstance(value, nn.Parameter):
                self.register_parameter(arguments.names[place], value)
            else:
                self.register_buffer(arguments.names[place], value)

    def forward(self, *tensors: torch.Tensor) -> Any:
        arguments = self._arguments
        given = dict(zip(arguments.inputs, tensors, strict=True))
        sizes = {place: given[of].shape[d] for place, (of, d) in arguments.sizes.items()}
        known = {**given, **sizes, **self._others}
        return self._run(
            *(
                known[place] if place in known else getattr(self, name)
                for place, name in enumerate(arguments.names)
            )
        )


class CompiledGraph:
    """A graph that is compiled for given constants.

    Args:
        values: the arguments of the first call.
        options: keyword arguments of `tcopt.compile`.
    Raises:
        OverwritesState: the graph overwrites a constant.
        TcoptError: the graph cannot be compiled.
    """

    def __init__(
        self,
        graph: GraphModule,
        arguments: Arguments,
        values: Sequence[Any],
        options: Mapping[str, Any],
    ):
        bound = _Bound(graph, arguments, values)
        tensors = tuple(values[place].detach() for place in arguments.inputs)
        dynamic = tuple(
            dict.fromkeys(arguments.dynamic.get(place, ()), Dim.AUTO) for place in arguments.inputs
        )
        program = _export(bound, tensors, {"tensors": dynamic})
        translated = translate(program)
        self._compiled = CompiledProgram(program, translated, translated.dims, options)
        self._inputs = arguments.inputs
        self._is_open = any(arguments.dynamic.values())
        self._shapes = [
            None if name is None else self._shape_of(name) for name in translated.inputs
        ]
        self._constants = [(place, _state(values[place])) for place in arguments.constants]

    def _shape_of(self, name: str) -> Sequence[object]:
        (spec,) = (spec for spec in self._compiled.model.inputs if spec.name == name)
        return spec.shape

    def fits(self, args: Sequence[Any]) -> bool:
        """Whether the code computes the graph for these arguments."""
        for place, state in self._constants:
            if not _is_state(args[place], state):
                return False
        return not self._is_open or all(
            shape is None or _fits(args[place].shape, shape)
            for place, shape in zip(self._inputs, self._shapes, strict=True)
        )

    def run(self, args: Sequence[Any]) -> list[Any]:
        """Return the results for the arguments of the graph."""
        return self._compiled.run([args[place] for place in self._inputs])


def _export(module: nn.Module, tensors: tuple[torch.Tensor, ...], shapes: Any) -> Any:
    try:
        with torch.no_grad():
            return torch.export.export(module, tensors, dynamic_shapes=shapes, strict=False)
    # Exports of arbitrary programs fail by exceptions of many classes.
    except Exception as error:
        text = str(error).partition("\n")[0]
        raise UnsupportedError(f"torch.export failed: {type(error).__name__}: {text}") from error


def _fits(shape: Sequence[int], declared: Sequence[object]) -> bool:
    return all(
        not isinstance(want, int) or have == want
        for have, want in zip(shape, declared, strict=True)
    )


def _state(value: Any) -> tuple[Any, ...]:
    """Return what identifies the value of a constant."""
    if not isinstance(value, torch.Tensor):
        return (value,)
    if not value.dim() and not isinstance(value, nn.Parameter):
        return (value.item(),)
    version = 0 if value.is_inference() else value._version
    return value, value.data_ptr(), version


def _is_state(value: Any, state: tuple[Any, ...]) -> bool:
    if len(state) == 1:
        return (value.item() if isinstance(value, torch.Tensor) else value) == state[0]
    known, address, version = state
    return (
        value is known
        and value.data_ptr() == address
        and (value.is_inference() or value._version == version)
    )
