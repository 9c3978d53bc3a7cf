"""Run a stored model, and onnxruntime on the same inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
from onnx import ModelProto

import tcopt
from exports.stored import feeds_of
from models.checks import run_imported, run_reference
from models.quantized import output_step, quantized

TOLERANCE = 1e-4
"""Largest error of a float, relative to the largest magnitude in its output.

Sums of some hundred products are added in another order, in about ten consecutive layers. Random
weights amplify that, up to 3e-5 in MobileNets, whose batch norms are folded into weights.
"""

KINDS = ("QDQ", "QOperator", "dynamic")

Run = Callable[[Mapping[str, np.ndarray]], Sequence[np.ndarray]]


def compiled(model: ModelProto) -> Run:
    """Run the compiled model."""
    return tcopt.compile(model).run


def interpreted(model: ModelProto) -> Run:
    """Run the imported model by the graph interpreter."""
    return lambda feeds: run_imported(
        model, feeds, shapes={name: feed.shape for name, feed in feeds.items()}
    )


def worst_error(model: ModelProto, way: Callable[[ModelProto], Run], sets: int = 9) -> float:
    """Return the largest error against onnxruntime over the first `sets` sets of inputs."""
    run = way(model)
    found = [
        error
        for feeds in islice(feeds_of(model), sets)
        for error in _errors(run(feeds), run_reference(model, feeds))
    ]
    return max(found)


def _errors(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> Iterator[float]:
    """Yield each output's largest error, relative to its largest magnitude; shapes and types must
    agree."""
    assert [(a.shape, a.dtype) for a in ours] == [(a.shape, a.dtype) for a in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert np.isfinite(other).all()
        if other.dtype.kind == "f":
            assert np.ptp(other) > 1e-3, "an output that tells nothing"
            yield float(np.abs(mine - other).max() / np.abs(other).max())
        else:
            yield float(not np.array_equal(mine, other))


def quantized_export(model: ModelProto, kind: str) -> ModelProto:
    """Quantise a stored model to 8 bits, over the range of its stored inputs."""
    if kind == "dynamic":
        # Weights of 7 bits, as in `quantized`.
        return quantized(model, kind, reduce_range=True)
    feeds = [feeds for seed in (1, 2, 3) for feeds in feeds_of(model, seed)]
    return quantized(model, kind, feeds=feeds, per_channel=kind == "QDQ")


def steps_apart(model: ModelProto, way: Callable[[ModelProto], Run]) -> float:
    """Return the largest difference of a quantised model's first output from onnxruntime's, in
    steps.

    The step is the output's scale, or 1/255 of the range if it is not quantised.
    """
    feeds = next(feeds_of(model, 7))
    ours, *_ = way(model)(feeds)
    theirs, *_ = run_reference(model, feeds)
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    last = {node.output[0]: node for node in model.graph.node if node.output}
    made_by = last[model.graph.output[0].name].op_type
    step = output_step(model) if made_by == "DequantizeLinear" else np.ptp(theirs) / 255
    return float(np.abs(ours - theirs).max() / step)
