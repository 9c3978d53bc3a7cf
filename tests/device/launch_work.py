"""How the work of a model's launches is spread over threads, told from their loops."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from onnx import ModelProto

from tcopt.compiler import lower, pipeline
from tcopt.compiler.passes import run_passes
from tcopt.dialects import loop
from tcopt.frontends.onnx import import_model


@dataclass(frozen=True)
class LaunchWork:
    """A launch.

    Attributes:
        threads: of all blocks together.
        steps: iterations that the busiest loop of a thread runs through.
    """

    kernel: str
    threads: int
    steps: int


def launch_works(model: ModelProto, target: str) -> list[LaunchWork]:
    """The launches of a model, scheduled and no further lowered."""
    module = import_model(model)
    phases = pipeline(target)
    lower(module, [each for each in phases if each.name in ("graph", "te", "loop", "schedule")])
    run_passes(module, "compact-buffers,lower-blocks,lower-thread-reductions")
    functions = [op for op in module.ops if isinstance(op, loop.FuncOp)]
    return [
        _work(function, nest)
        for function in functions
        for nest in function.body.block.ops
        if isinstance(nest, loop.ForOp | loop.GuardOp)
    ]


def _work(function: loop.FuncOp, nest: loop.ForOp | loop.GuardOp) -> LaunchWork:
    extents: dict[loop.ThreadAxis, int] = {}
    steps = 1
    for op in nest.walk():
        if isinstance(op, loop.ForOp) and op.axis is not None:
            extents[op.axis.data] = max(extents.get(op.axis.data, 1), op.trip_count)
        if isinstance(op, loop.StoreOp):
            around = [each for each in loop.enclosing_loops(op) if each.axis is None]
            steps = max(steps, prod(each.trip_count for each in around))
    return LaunchWork(function.sym_name.data, prod(extents.values()), steps)
