"""Compiling a model as a command line asks, with its progress shown."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tcopt.frontends.onnx.limits import parse_limits
from tcopt.tools.progress import CompileProgress

if TYPE_CHECKING:
    from tcopt.runtime import Model


def compile_model(
    args: argparse.Namespace, shapes: dict[str, tuple[int, ...]], *, cache: bool = True
) -> tuple[Model, CompileProgress]:
    """The model, and what its compile took.

    Args:
        args: with `model` and `target`, and the options that `add_accuracy` and `add_limits` add.
        shapes: of inputs that the model leaves open.
        cache: whether kernels are taken from disk, and kept there.
    """
    import tcopt

    with CompileProgress() as progress:
        model = tcopt.compile(
            args.model,
            args.target,
            accuracy=args.accuracy,
            precision=args.precision,
            shapes=shapes or None,
            progress=progress,
            cache=cache,
            limits=parse_limits(args.limit),
        )
    return model, progress
