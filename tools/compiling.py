"""Compilation of a model with the options of a command line, showing its progress."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from tcopt.frontends.onnx.model.limits import parse_limits
from tcopt.tools.command_line.cli import inserted_passes, wanted_tuning
from tcopt.tools.command_line.progress import CompileProgress
from tcopt.tools.command_line.shapes import dims_text, parse_dims, parse_shapes

if TYPE_CHECKING:
    from tcopt.runtime import Model
    from tcopt.support.pipelines.phases import Phase


def compile_model(
    args: argparse.Namespace, values: Mapping[str, NDArray[Any]] | None = None
) -> tuple[Model, CompileProgress]:
    """Compile a model; return it and the times of its phases.

    Args:
        args: with `model` and `target`, and the options that `add_accuracy`, `add_limits`,
            `add_shapes`, `add_cache` and `add_tuned` add.
        values: of inputs to specialise on.
    """
    import tcopt

    shapes = parse_shapes(args.shape)

    with CompileProgress() as progress:
        model = tcopt.compile(
            args.model,
            args.target,
            accuracy=args.accuracy,
            precision=args.precision,
            shapes=shapes or None,
            values=values or None,
            dims=parse_dims(args.dim),
            progress=progress,
            cache=not args.no_cache,
            limits=parse_limits(args.limit),
            follow_links=args.follow_links,
            passes=inserted_passes(args),
            **wanted_tuning(args),
        )
    return model, progress


def phases_of(args: argparse.Namespace) -> list[Phase]:
    """Return the phases of a compile, for the same arguments as `compile_model`."""
    from tcopt import compiler
    from tcopt.compiler.tuned import find_lock, with_lock
    from tcopt.support.pipelines.phases import Phase, with_passes

    added = {place: Phase(place, text).passes for place, text in inserted_passes(args).items()}
    known = with_passes(compiler.pipeline(args.target, args.accuracy, args.precision), added)
    if args.model is not None:
        known = with_lock(known, find_lock(args.model, **wanted_tuning(args)))
    return known


def print_extents(model: Model, feeds: Mapping[str, NDArray[Any]]) -> None:
    """Print the extents of a model's named dimensions in a run, if there are any."""
    extents = model.extents(feeds)
    if extents:
        print(f"compiled for {dims_text(extents)}")
