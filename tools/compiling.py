"""Compilation of a model with the options of a command line, showing its progress."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from tcopt.tools.command_line.cli import inserted_passes, wanted_tuning
from tcopt.tools.command_line.progress import CompileProgress
from tcopt.tools.command_line.shapes import dims_text, parse_dims, parse_donations, parse_shapes

if TYPE_CHECKING:
    from tcopt.compiler.options import CompileOptions
    from tcopt.runtime import Model

Arrays = Mapping[str, NDArray[Any]]


def compile_model(
    args: argparse.Namespace, values: Arrays | None = None
) -> tuple[Model, CompileProgress]:
    """Compile a model; return it and the times of its phases.

    Args:
        args, values: see `options_of`.
    """
    from tcopt.compiler.entry import compile_with

    options = options_of(args, values)
    with CompileProgress() as progress:
        model = compile_with(args.model, replace(options, progress=progress))
    return model, progress


def options_of(
    args: argparse.Namespace, values: Arrays | None = None, *, feeds: Arrays | None = None
) -> CompileOptions:
    """Return the options of a compile that a command line gives.

    Args:
        args: with `model` and `target`, and options as `compile_arguments` takes them.
        values: of inputs to specialise on.
        feeds: values of inputs; only their shapes are used.
    """
    from tcopt.compiler.options import CompileOptions

    given = compile_arguments(args, feeds)
    return CompileOptions.of(args.model, args.target, values=values, **given)


def compile_arguments(args: argparse.Namespace, feeds: Arrays | None = None) -> dict[str, Any]:
    """Return the keyword arguments of `tcopt.compile` that a command line gives.

    Args:
        args: with the options that `add_limits` and `add_shapes` add; and optionally the
            options of `add_accuracy`, `add_cache`, `add_insert` and `add_tuned`.
        feeds: values of inputs; only their shapes are used.
    """
    from tcopt.frontends.onnx.model.limits import parse_limits

    given = vars(args)
    shapes = {name: array.shape for name, array in (feeds or {}).items()}
    found = {name: given[name] for name in ("accuracy", "precision") if name in given}
    return {
        **found,
        "shapes": shapes | parse_shapes(args.shape),
        "dims": parse_dims(args.dim),
        "donate": parse_donations(given.get("donate", ())),
        "cache": not given.get("no_cache"),
        "limits": parse_limits(args.limit),
        "follow_links": args.follow_links,
        "passes": inserted_passes(args) if "insert_passes" in given else {},
        **(wanted_tuning(args) if "tuned" in given else {"tuned": False}),
    }


def print_extents(model: Model, feeds: Mapping[str, NDArray[Any]]) -> None:
    """Print the extents of a model's named dimensions in a run, if there are any."""
    extents = model.extents(feeds)
    if extents:
        print(f"compiled for {dims_text(extents)}")
