"""Compile a model as usual, and run it with its kernels' results observed."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from numpy.typing import NDArray

from tcopt.frontends.onnx.importer import import_whole
from tcopt.runtime.random_inputs import make_inputs
from tcopt.support.errors import UnsupportedError
from tcopt.support.pipelines.phases import configured
from tcopt.support.pipelines.running import new_context, run_passes
from tcopt.support.pipelines.text import make_passes
from tcopt.support.registries.target_registry import find_target
from tcopt.targets.launched import LaunchedTarget
from tcopt.tools.compiling import options_of
from tcopt.tools.execution.executors import functions, input_names, inputs_of
from tcopt.tools.passes.driver import blame
from tcopt.tools.results.observed import Borders, KernelRun, own_outputs, run_observed

Array = NDArray[Any]

_LOWERING = "lower-graph-to-te"


@dataclass(frozen=True)
class ObservedModel:
    """A run of a model with observed kernels.

    Attributes:
        feeds: the values of its inputs.
        results: its outputs by name.
        kernels: the calls of its kernels, in order.
        seconds: how long the compile took.
    """

    feeds: dict[str, Array]
    results: dict[str, Array]
    kernels: list[KernelRun]
    seconds: float


def observe_model(args: argparse.Namespace, given: dict[str, Array]) -> ObservedModel:
    """Compile and run a model.

    Args:
        args: as `compile_model` takes them, with a seed and a timeout.
        given: values of inputs; others are random.
    Raises:
        UnsupportedError: the target is not a CPU, or shapes depend on data.
    """
    if isinstance(find_target(args.target)[0], LaunchedTarget):
        raise UnsupportedError(
            f"--per-layer observes kernels of a CPU, not of {args.target}",
            hint="--compare alone compares the outputs",
        )
    started = time.perf_counter()
    options = options_of(args, feeds=given)
    phases = configured(options.phases, _LOWERING, origins=True)
    read = partial(import_whole, args.model, options)
    module, ctx = read(), new_context()
    passes = make_passes(each for phase in phases for each in phase.passes)
    at = next((n for n, each in enumerate(passes) if each.name == _LOWERING), len(passes))
    try:
        run_passes(ctx, module, passes[:at])
        borders = Borders.of(module)
        run_passes(ctx, module, passes[at:])
    except Exception as error:
        raise blame(ctx, read, passes, error) from error
    seconds = time.perf_counter() - started
    specs = inputs_of(module, functions(module)["main"])
    feeds = make_inputs(specs, given, seed=args.seed)
    results, kernels = run_observed(
        module, borders, [feeds[spec.name] for spec in specs], limit=args.timeout
    )
    own = {name: feeds[name] for name in input_names(module) if name in feeds}
    named = dict(zip(own_outputs(module), results, strict=False))
    return ObservedModel(own, named, kernels, seconds)
