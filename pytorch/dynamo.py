"""The backend of `torch.compile`: `torch.compile(model, backend="tcopt")`.

Dynamo records the model as graphs of PyTorch functions. Each graph is exported and compiled when it
is first called. A graph that has no compiled form is run by PyTorch, with a `FallbackWarning`.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from tcopt.support.errors import TcoptError
from tcopt.torch.fallbacks import warn_of_fallback, warn_of_graph_break
from tcopt.torch.graphs import Arguments, CompiledGraph
from tcopt.torch.translation import OverwritesState

_MOST_COMPILED = 8
"""Number of combinations of parameters that a graph is compiled for."""


def backend(
    graph: GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Return the function that runs a graph; called by `torch.compile`.

    Args:
        graph: the graph of PyTorch functions.
        example_inputs: its arguments.
        options: keyword arguments of `tcopt.compile`, as in
            `torch.compile(model, backend="tcopt", options={"accuracy": "fast"})`.
    """
    warn_of_graph_break(graph)
    if torch.is_grad_enabled() and any(map(_requires_grad, example_inputs)):
        warn_of_fallback("a gradient is required; call the model under torch.no_grad()")
        return graph.forward
    return _Runner(graph, example_inputs, options or {})


def _requires_grad(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


class _Runner:
    """Runs a graph by compiled code, which is compiled at its first call.

    Dynamo calls one graph with the parameters of several modules if they have the same structure.
    Parameters are constants of compiled code, so it is compiled again for other ones, and when they
    have changed.
    """

    def __init__(
        self, graph: GraphModule, example_inputs: Sequence[Any], options: Mapping[str, Any]
    ):
        self._graph = graph
        self._arguments = Arguments.of(graph, example_inputs)
        self._options = options
        self._compiled: list[CompiledGraph] = []
        self._eager = False

    def __call__(self, *args: Any) -> Any:
        if self._eager:
            return self._graph.forward(*args)
        for place, compiled in enumerate(self._compiled):
            if compiled.fits(args):
                if place:
                    self._compiled.insert(0, self._compiled.pop(place))
                return compiled.run(args)
        try:
            compiled = self._compile(args)
        except TcoptError as error:
            warn_of_fallback(str(error))
            self._eager = True
            return self._graph.forward(*args)
        self._compiled = [compiled, *self._compiled[: _MOST_COMPILED - 1]]
        return compiled.run(args)

    def _compile(self, args: Sequence[Any]) -> CompiledGraph:
        while True:
            try:
                return CompiledGraph(self._graph, self._arguments, args, self._options)
            except OverwritesState as error:
                # Overwritten buffers, such as caches, are not constants.
                self._arguments = self._arguments.with_inputs(error.names)
